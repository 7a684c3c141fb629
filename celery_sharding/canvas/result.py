"""What a call of a sharded task returns: Celery's result, and what jobs can do more."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from queue import Empty
from typing import TYPE_CHECKING, Any, Self, TypeVar

from celery import Celery
from celery.backends.base import SyncBackendMixin
from celery.exceptions import TimeoutError  # noqa: A004  # what Celery raises here
from celery.result import AsyncResult
from celery.states import PENDING

from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import monotonic
from celery_sharding import flow
from celery_sharding.errors import PeckerError
from celery_sharding.flow.outcomes import stored
from celery_sharding.ledger import Ledger, at
from celery_sharding.model import Code, ItemError, Progress, Stage

if TYPE_CHECKING:
    from celery_sharding.ledger.rows import ShardRow

Answer = TypeVar("Answer")

PAGE = 1_000
"""Shards that are read at once."""
GLANCE = 0.2
"""Seconds between two looks at a job that is rerun."""
BLINK, SETTLED = 0.02, 10.0
"""Seconds between two looks at a job whose value is stored, and until it is taken as it
is."""


class ShardedResult(AsyncResult):  # type: ignore[type-arg]  # generic since Celery 5.7
    """The result of a sharded job: `get`, `status` and so on are Celery's.

    Its id is enough: ``ShardedResult.restore(id, app=app)`` gives it anywhere. The
    ledger answers where the backend has nothing of a job that has ended.
    """

    _repeated = False
    """Whether the backend may still have the value of a run before."""
    _stands = _read = 1
    """The run that the ledger named last, and the one whose value was read."""

    @classmethod
    def restore(cls, task_id: str, app: Celery | None = None) -> Self:
        """Return the result of the job of that task id."""
        return cls(task_id, app=app)

    @property
    def ledger(self) -> Ledger:
        """This thread's way to the ledger."""
        return at(self.app, role="caller")

    def get(self, timeout: float | None = None, *args: Any, **options: Any) -> Any:
        """Return the job's value once it has ended, or raise why it failed.

        Of a job that is rerun, by whomever: once it has ended again. Till then the
        backend has the value of the run before.
        """
        if self._repeated or self._rerun():
            began = monotonic()
            self._await_end(timeout)
            if timeout is not None:
                timeout = max(timeout - (monotonic() - began), 0.0)
            self._repeated, self._cache = False, None
            self._read = self._stands
            self._drop_buffered()
            self._get_task_meta()
        elif isinstance(self.backend, SyncBackendMixin):
            self._get_task_meta()  # it waits for the backend's own word
        return super().get(timeout, *args, **options)

    wait = get

    def _rerun(self) -> bool:
        """Return whether there is a value, and a run after the one that was read.

        Others rerun a job at any time: a value that was read is asked after, too.
        """
        if not super().ready():
            return False
        stands = self._asked(lambda ledger: ledger.outcomes.stage_of(self._named))
        if stands is None:
            return False
        self._stands = stands[1]
        return self._stands != self._read

    def _get_task_meta(self) -> dict[str, Any]:
        """Return what the backend has, or the ledger: that keeps a job for longer."""
        meta: dict[str, Any] = super()._get_task_meta()  # type: ignore[misc]  # not in the stubs
        if meta["status"] != PENDING:
            return meta
        decided = self._asked(lambda ledger: ledger.outcomes.decided(self._named))
        if decided is None or decided.stage is not Stage.ENDED:
            return meta
        value, state = stored(self.app, decided)
        error = decided.error or {}
        kept = {
            **meta,
            "task_id": self._named,  # where the backend has nothing it names none
            "status": state,
            "result": value,
            "traceback": error.get("traceback"),
        }
        cached: dict[str, Any] = self._maybe_set_cache(kept)  # type: ignore[attr-defined]
        return cached

    def _asked(self, question: Callable[[Ledger], Answer]) -> Answer | None:
        """Return what the ledger answers; None where it cannot be asked.

        The caller's deadline passes: it is no failure of the ledger.
        """
        try:
            return question(self.ledger)
        except DeadlineExceeded:
            raise
        except PeckerError:
            return None

    def _drop_buffered(self) -> None:
        """Drop buffered messages of an earlier run."""
        buffered = getattr(self.backend, "_pending_messages", None)
        if buffered is not None:
            with suppress(Empty):
                while True:
                    buffered.take(self._named)

    def _await_end(self, timeout: float | None) -> None:
        over = inf if timeout is None else monotonic() + timeout
        pause = threading.Event()
        while self.progress.stage is not Stage.ENDED:
            if monotonic() >= over:
                raise TimeoutError(f"{self.id} did not end again within {timeout} s")
            pause.wait(GLANCE)

    def _settle(self) -> None:
        """Wait a moment for a job whose outcome is just being reported to Celery.

        A caller that has its value, and reruns it at once, would come too early.
        """
        over = monotonic() + SETTLED
        pause = threading.Event()
        while self.progress.stage is Stage.DELIVERING and monotonic() < over:
            pause.wait(BLINK)

    # How it stands

    @property
    def progress(self) -> Progress:
        """How far the job is; raises JobNotFound where there is none."""
        return self.ledger.reading.progress(self._named)

    def errors(self) -> Iterator[ItemError]:
        """Yield the items that failed, one by one, from storage."""
        return self.ledger.reading.each_error(self._named)

    def results(self) -> Iterator[Any]:
        """Yield the values passed to `ok` and those that processors returned."""
        return self.ledger.reading.each_result(self._named)

    def shards(self, status: int | None = None) -> "Iterator[ShardRow]":
        """Yield the shards with that status code (`Code`), or all of them."""
        code = None if status is None else Code(status)
        reading = self.ledger.reading
        job = reading.job(self._named).leading
        after = -1
        while rows := reading.shards(job, status=code, after=after, most=PAGE):
            yield from rows
            after = rows[-1].shard

    # What may be done to it

    def pause(self) -> None:
        """Pause the job: begin no further item; items that run end."""
        self.ledger.control.pause(self._named)

    def resume(self) -> None:
        """Resume the job where it was paused."""
        self._advance(self.ledger.control.resume(self._named))

    def cancel(self) -> None:
        """Cancel the job: begin no further item, and end in state REVOKED."""
        flow.cancel(self.app, self.ledger, self._named)

    def revoke(self, *_: Any, **__: Any) -> None:
        """Cancel it: Celery's own revoke would reach one message, not the job."""
        self.cancel()

    def retry_failed(self) -> int:
        """Rerun the failed items of an ended job, then Post; return how many."""
        self._settle()
        return self._reopened(self.ledger.control.retry_failed(self._named))

    def rerun(self, shards: Sequence[int]) -> int:
        """Rerun those shards of an ended job, then Post; return how many items."""
        self._settle()
        return self._reopened(self.ledger.control.rerun(self._named, shards))

    def _reopened(self, items: int) -> int:
        self._advance(self.ledger.reading.job(self._named).job)
        self._repeated = True
        return items

    def _advance(self, job: int) -> None:
        flow.advance_job(self.app, self.ledger, job)

    def set(
        self, *, concurrency: int | None = None, max_failed: int | str | None = None
    ) -> Self:
        """Change how the job runs, while it runs; what is None stays as it is."""
        asked = {"concurrency": concurrency, "max_failed": max_failed}
        changes = {name: one for name, one in asked.items() if one is not None}
        if changes:
            self._advance(self.ledger.control.options(self._named, **changes))
        return self

    @property
    def _named(self) -> str:
        return str(self.id)
