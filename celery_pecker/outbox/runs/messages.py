"""What stands around a task that a row of an outbox is to be run for.

It starts the run, or refuses it; runs the task under its deadline, or its emergency
completion; and has the end written. For Celery a run that failed and will be tried
again is a retry: its state is RETRY, no `get()` fails, errbacks wait for the last.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from celery import signals
from celery.exceptions import Ignore, Retry
from kombu.utils.encoding import safe_repr

from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs import header, holds, options
from celery_pecker.outbox.runs.header import HEADER, RowRef
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import GONE
from celery_pecker.outbox.runs.service import (
    DEFAULT,
    UNKNOWN,
    RunService,
    Services,
    Started,
)

logger = logging.getLogger("celery_pecker.outbox")

DONE = "pecker_outbox_done"
"""On a request: the run that has succeeded, once all that follows from it is sent."""
EXPIRED = "it has expired before it was run"
REVOKED = "it was revoked before it was run"

Call = Callable[[], Any]


class Messages:
    """Runs tasks of rows, in a worker's pool or on its threads for local runs.

    Args:
        settings: gives the settings of an outbox by its name; None: it is not known.
        names: gives the names of those that are known.
        refuse_retries: has ``retry()`` of a task fail its run.
    """

    def __init__(
        self,
        settings: Callable[[str], Settings | None],
        *,
        names: Callable[[], Iterable[str]] = lambda: (DEFAULT,),
        refuse_retries: Callable[[Any], None] = lambda _task: None,
    ) -> None:
        self._services = Services(settings, names)
        self._refuse_retries = refuse_retries

    def connect(self) -> None:
        """Let rows hear how their tasks ended, or that none runs; may be called again.

        One that succeeds is deleted. One whose message Celery drops, since it has
        expired or was revoked, is parked: else it would be sent again for ever. Of a
        task that the worker has not, or content that it refuses, an attempt is counted:
        another worker may take it.
        """
        signals.task_success.connect(_on_success, dispatch_uid=HEADER, weak=False)
        signals.task_revoked.connect(self._on_revoked, weak=True)
        signals.task_unknown.connect(self._on_refused, weak=True)
        signals.task_rejected.connect(self._on_refused, weak=True)

    def service(self, outbox: str) -> RunService | None:
        """Return what starts and ends runs of an outbox; None: it is not known here."""
        return self._services.named(outbox)

    def close(self) -> None:
        """Let go of the databases."""
        signals.task_revoked.disconnect(self._on_revoked)
        signals.task_unknown.disconnect(self._on_refused)
        signals.task_rejected.disconnect(self._on_refused)
        if "_parking" in vars(self):
            self._parking.shutdown(cancel_futures=True)
        self._services.close()

    @cached_property
    def _parking(self) -> ThreadPoolExecutor:
        """A thread that waits for the database where Celery's own must not."""
        return ThreadPoolExecutor(1, thread_name_prefix="pecker-outbox-parking")

    def _on_revoked(
        self, sender: Any, request: Any, *, expired: bool = False, **_: object
    ) -> None:
        ref = self.read(request)
        if isinstance(ref, RowRef):
            why = EXPIRED if expired else REVOKED
            name = str(getattr(sender, "name", ""))
            self._parking.submit(self._give_up, RunService.park, ref, name, why)

    def _on_refused(self, message: Any, exc: BaseException | None, **_: object) -> None:
        headers = getattr(message, "headers", None) or {}
        ref = header.read(headers.get(HEADER), headers.get("id"))
        if ref is not None:
            why = f"no such task: {exc}" if isinstance(exc, KeyError) else str(exc)
            name = str(headers.get("task", ""))
            self._parking.submit(
                self._give_up, RunService.count_failed_start, ref, name, why
            )

    def _give_up(
        self,
        settle: Callable[[RunService, RowRef, str, str], bool],
        ref: RowRef,
        task: str,
        why: str,
    ) -> None:
        """Have the row of a message that is not run parked, or count an attempt."""
        level, text = logging.WARNING, UNKNOWN.format(ref.outbox)
        try:
            for service in self._services.of(ref, task):
                if settle(service, ref, task, why):
                    return
                level, text = logging.INFO, "gone, or it was run meanwhile"
        except PeckerError as error:
            level, text = logging.WARNING, f"unknown ({error})"
        logger.log(
            level,
            "pecker: the recorded task %s[%s] is not started (%s): %s",
            *(task, ref.task_id, why, text),
        )

    @staticmethod
    def read(request: Any) -> RowRef | tuple[RunService, Started] | None:
        """Return what the message says of its row, or the run that began with it."""
        ref = vars(request).get(HEADER)
        if ref is None or isinstance(ref, tuple):
            return ref
        if isinstance(ref, Mapping):
            return header.read(ref, request.id)
        return None

    def run(
        self,
        task: Any,
        ref: RowRef | tuple[RunService, Started],
        call: Call,
        bounded: Callable[..., Any],
    ) -> Any:
        """Run the task, or not."""
        if isinstance(ref, tuple):
            service, started = ref
            known = options.read(task, attempts=service.attempts)
        else:
            service, started, known = self._start(task, ref)
        request = task.request
        request.pecker_no_retries = True
        request.retries = started.begun.attempt - 1
        self._refuse_retries(task)
        attempt = _Attempt(task, known, started, call)
        result, error = user_code.tried(bounded, started.ends, attempt, started.pool)
        if error is not None and attempt.ignored:
            # As everywhere in Celery: an ignored run has ended without a result.
            service.end(started, emergency=attempt.emergency)
            raise error
        if error is not None:
            raise self._failed(task, service, started, known, error)
        setattr(request, DONE, (service, started, attempt.emergency))
        return result

    def _start(self, task: Any, ref: RowRef) -> tuple[RunService, Started, Options]:
        level, verdict = logging.WARNING, UNKNOWN.format(ref.outbox)
        wrong: Misconfigured | None = None
        try:
            for service in self._services.of(ref, task.name):
                try:
                    known = options.read(task, attempts=service.attempts)
                except Misconfigured as error:
                    wrong = error
                    if service.count_failed_start(ref, task.name, str(error)):
                        break
                    continue
                started, verdict = service.start(ref, known)
                if started is not None:
                    return service, started, known
                level = logging.INFO
                if verdict != GONE:
                    break
        except PeckerError as error:  # no answer, no tables: no run either
            raise wrong or _refused(task, f"unknown ({error})") from error
        raise wrong or _refused(task, verdict, level)

    def _failed(
        self,
        task: Any,
        service: RunService,
        started: Started,
        known: Options,
        error: Exception,
    ) -> Exception:
        """Write how it failed; return what Celery raises."""
        begun = started.begun
        last = holds.is_last(begun.attempt, known.attempts)
        written = service.fail(started, safe_repr(error), park=last)
        left = max(started.held - SYSTEM.monotonic(), 0.0)
        logger.log(
            logging.ERROR if last else logging.WARNING,
            "pecker: attempt %d of %s[%s] failed, %s: %r",
            begun.attempt,
            task.name,
            task.request.id,
            "and it is parked" if last and written else f"due again in {left:.0f} s",
            error,
        )
        if last:
            return error
        retry = Retry(exc=error, when=left)  # type: ignore[arg-type]  # a float is Real
        retry.__cause__ = error
        return retry


class _Attempt:
    """Calls the task or its emergency completion, and knows what became of it."""

    def __init__(self, task: Any, known: Options, started: Started, call: Call) -> None:
        self._task = task
        self._known = known
        self._number = started.begun.attempt
        self._call = call
        self.emergency = False
        """Whether the emergency completion was called."""
        self.ignored = False
        """Whether the task itself asked for its end to be ignored."""

    def __call__(self) -> Any:
        after = self._known.after
        try:
            if holds.is_emergency(self._number, after):
                return self._complete()
            result, error = user_code.tried(self._call)
            if error is None:
                return result
            if isinstance(
                error, (Ignore, DeadlineExceeded)
            ) or not holds.runs_emergency(self._number, after):
                raise error  # out of time: the next attempt is the emergency
            logger.warning(
                "pecker: attempt %d of %s[%s] failed: its emergency completion is"
                " called: %r",
                *(self._number, self._task.name, self._task.request.id, error),
            )
            return self._complete()
        except Ignore:
            self.ignored = True
            raise

    def _complete(self) -> Any:
        self.emergency = True
        request, emergency = self._task.request, self._known.emergency
        assert emergency is not None  # noqa: S101  # else no such run starts
        return emergency.call(*(request.args or ()), **(request.kwargs or {}))


def _refused(task: Any, why: str, level: int = logging.INFO) -> Ignore:
    logger.log(
        level,
        "pecker: the recorded task %s[%s] is not started: %s",
        *(task.name, task.request.id, why),
    )
    return Ignore(f"celery-pecker: {why}")


def _on_success(sender: Any = None, **_: object) -> None:
    """Delete the row: callbacks are sent, and the result is stored."""
    done = getattr(getattr(sender, "request", None), DONE, None)
    if done is not None:
        service, started, emergency = done
        service.end(started, emergency=emergency)
