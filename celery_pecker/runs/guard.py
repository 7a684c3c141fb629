"""What stands around the tasks of a worker: the start check and the deadline.

`install` wraps each task's `run` (or the `__call__` of its class, if it has its own:
Celery's tracer calls that instead) before the pool forks. A message without our
headers passes by a few comparisons. One with them

- may be refused: Celery's `Ignore` ends it, acknowledged and without a result (a part
  of a chord fails, since its chord counts results);
- runs under its deadline, as strictly as its pool allows; what the deadline ended, or
  what came back after it, fails with DeadlineExceeded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

from celery import Celery
from celery.app.trace import task_has_custom
from celery.exceptions import Ignore

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs import headers, inheritance, outcomes
from celery_pecker.runs.ending import BOUND, MARK, Call, ended_in_time, past_autoretry
from celery_pecker.runs.outcomes import Watch
from celery_pecker.runs.reports import Reports
from celery_pecker.runs.run import Run, current, running
from celery_pecker.runs.start import Start, Starter, Verdict
from celery_pecker.schedules.history import Report

logger = logging.getLogger(__name__)

Bounded = Callable[..., Any]
"""Takes the moment of the end, a call, and the kind of pool if it is another."""

UNBOUNDED = frozenset({"celery.chord_unlock", "celery.backend_cleanup"})
"""Tasks of Celery's own, that serve others: they inherit no deadline."""

REPORTS = {
    Verdict.LATE: Report.REFUSED_LATE,
    Verdict.OVERTAKEN: Report.REFUSED_OVERTAKEN,
    Verdict.UNKNOWN: Report.REFUSED_UNKNOWN,
    Verdict.REPEATED: Report.REFUSED_REPEATED,
}


class Stored(Protocol):
    """Runs tasks whose messages are rows of an outbox."""

    def read(self, request: Any) -> Any:
        """Return the message's reference to its row; None: it is none of these."""
        ...

    def run(self, task: Any, row: Any, call: Call, bounded: Bounded) -> Any:
        """Run it, or not."""
        ...


def install(
    app: Celery,
    *,
    pool_kind: str,
    settings: Settings,
    host: str = "",
    stored: Stored | None = None,
) -> Guard:
    """Wrap the tasks that `app` has by now; may be repeated.

    ``host`` is the name under which runs are reported: the worker's.
    """
    guard = _installed.get(app)
    if guard is None:
        guard = _installed[app] = Guard(
            settings, pool_kind=pool_kind, host=host, stored=stored
        )
        inheritance.connect()
    for task in app.tasks.values():
        guard.wrap(task)
    return guard


class Guard:
    """Lets runs begin, and bounds them."""

    def __init__(
        self,
        settings: Settings,
        *,
        pool_kind: str,
        host: str = "",
        clock: Clock = SYSTEM,
        stored: Stored | None = None,
    ) -> None:
        self._pool = pool_kind
        self._stored = stored
        self._schema = settings.schema
        self._clock = clock
        self._instants = inheritance.INSTANTS
        self._starter = Starter(settings, self._instants, clock)
        self._reports = Reports(settings, self._instants, host=host)
        self.watch = Watch(self._reports, schema=settings.schema)

    def close(self) -> None:
        """Let go of the database: the last reports are out, or will not be."""
        self.flush()
        self._starter.close()

    def flush(self) -> None:
        """Have the last reports written, if that is possible at once."""
        self._reports.close()

    # Wrapping

    def wrap(self, task: Any) -> None:
        """Put the guard around what Celery's tracer will call; idempotent."""
        if task.name in UNBOUNDED:
            return
        self.watch.wrap(task)
        if task_has_custom(task, "__call__"):
            self._wrap_class(type(task))
        elif not hasattr(task.run, MARK):
            task.run = self._around(task.run, lambda _args: task)
        inner = vars(task).get("_orig_run")
        if inner is not None and not hasattr(inner, MARK):
            task._orig_run = past_autoretry(task, inner)  # noqa: SLF001  # Celery's

    def _wrap_class(self, cls: Any) -> None:
        if not hasattr(vars(cls).get("__call__"), MARK):
            cls.__call__ = self._around(cls.__call__, lambda args: args[0])

    def _around(
        self, original: Callable[..., Any], whose: Callable[[tuple[Any, ...]], Any]
    ) -> Callable[..., Any]:
        @wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            task = whose(args)
            request = task.request
            header, inherited = _headers_of(request)
            stored = self._stored and self._stored.read(request)
            # Called by the tracer, with headers, and not yet by us: else it is a part
            # of some run, or none.
            if (
                (header is None and inherited is None and stored is None)
                or request.called_directly
                or request.is_eager
                or hasattr(request, MARK)
            ):
                return original(*args, **kwargs)
            setattr(request, MARK, True)
            if self._stored and stored is not None:
                bounded = partial(self._bounded, task, None)
                call = partial(original, *args, **kwargs)
                return self._stored.run(task, stored, call, bounded)
            return self._run(task, header, inherited, lambda: original(*args, **kwargs))

        setattr(guarded, MARK, True)
        return guarded

    # Deciding

    def _run(self, task: Any, header: object, inherited: object, call: Call) -> Any:
        run = headers.read(header, schema=self._schema, attempt=task.request.retries)
        if run is not None and headers.belongs(run, task.request.id):
            if _is_mine(current(), run):
                # A local run: the runner has done all else.
                return ended_in_time(call)
            return self._run_slot(task, run, call, asked=headers.is_requested(header))
        sender = headers.inherited(inherited, schema=self._schema)
        return call() if sender is None else self._run_subtask(task, sender, call)

    def _run_slot(self, task: Any, run: Run, call: Call, *, asked: bool) -> Any:
        if run.deadline is None:
            with running(run):
                return call()
        start = self._starter.start(run, asked=asked)
        if start.verdict is not Verdict.STARTED:
            self._refuse(task, run, start)
        return self._bounded(task, run, start.ends, call)

    def _run_subtask(self, task: Any, sender: headers.Inherited, call: Call) -> Any:
        begun = self._clock.monotonic()
        self._starter.read_clock(sender.left)
        ends = min(begun + sender.left, self._instants.moment(sender.at))
        return self._bounded(task, sender.run, ends, call)

    def _refuse(self, task: Any, run: Run | None, start: Start) -> NoReturn:
        verdict = start.verdict
        name = task.name if run is None else run.name
        logger.log(
            logging.WARNING if verdict is Verdict.UNKNOWN else logging.INFO,
            "pecker: %s of %s[%s] is not started: %s%s",
            "a subtask" if run is None or run.inherited else f"the run of {name}",
            task.name,
            task.request.id,
            verdict.value,
            f" ({start.why})" if start.why else "",
        )
        if task.request.chord is not None:
            # A part that ends without a result is waited for, for ever.
            message = f"the deadline of {task.name} was over before it began"
            raise outcomes.mark(DeadlineExceeded(message), REPORTS[verdict])
        raise outcomes.mark(Ignore(f"celery-pecker: {verdict.value}"), REPORTS[verdict])

    # Running

    def _bounded(  # what it needs, and the kind of pool where that is not the worker's
        self, task: Any, run: Run | None, ends: float, call: Call, pool: str = ""
    ) -> Any:
        # A copy of the context: wherever the deadline strikes, nothing stays behind in
        # the thread.
        setattr(task.request, BOUND, True)
        pool = pool or self._pool
        return copy_context().run(self._within, task, run, ends, call, pool)

    def _within(  # as above
        self, task: Any, run: Run | None, ends: float, call: Call, pool: str
    ) -> Any:
        try:
            with running(run), deadline.until(ends, task.name):
                # The process may have stood still since the answer came.
                if self._clock.monotonic() >= ends:
                    self._refuse(task, run, Start(verdict=Verdict.LATE))
                with deadline.enforce(pool):
                    return ended_in_time(call)
        except DeadlineExceeded as error:
            if self._clock.monotonic() >= ends:
                outcomes.mark(error, Report.OVERRUN)
            raise


def _headers_of(request: Any) -> tuple[Any, Any]:
    """Return our two headers of a message.

    Messages of protocol 2 have them on the request itself, and again in its `headers`,
    where Celery collects what it does not know: unless the sender set a header of that
    very name. A retry takes along what is in there, so there they are put. Messages of
    protocol 1 have them in there only.
    """
    beside, collected = vars(request), request.headers
    header, inherited = beside.get(headers.PECKER), beside.get(headers.DEADLINE)
    known = collected if isinstance(collected, Mapping) else {}
    if header is None and inherited is None:
        return known.get(headers.PECKER), known.get(headers.DEADLINE)
    ours = {headers.PECKER: header, headers.DEADLINE: inherited}
    if any(known.get(key) is not value for key, value in ours.items()):
        present = {key: value for key, value in ours.items() if value is not None}
        request.headers = {**known, **present}
    return header, inherited


def _is_mine(mine: Run | None, run: Run) -> bool:
    return mine is not None and (mine.name, mine.due_at, mine.epoch) == (
        run.name,
        run.due_at,
        run.epoch,
    )


_installed: WeakKeyDictionary[Celery, Guard] = WeakKeyDictionary()
