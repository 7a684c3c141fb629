"""What stands around the tasks of a worker: the start check and the deadline.

`install` wraps each task's `run` (or the `__call__` of its class, if it has its own:
Celery's tracer calls that instead) before the pool forks. A message without our
headers passes by a few comparisons. One with them

- may be refused: Celery's `Ignore` ends it, acknowledged and without a result (a part
  of a chord fails, since its chord counts results);
- runs under its deadline, as strictly as its pool allows; what the deadline ended, or
  what came back after it, fails with DeadlineExceeded.

What is left of the deadline goes with each message that a run sends. Opted out of per
call with `headers={"pecker_deadline": None}`, and for a block with
`deadline.detached()`. A message whose eta lies behind the deadline is not of this run:
it is work for later, and would only be refused. What Celery sends after a task's
function has ended (links, the next step of a chain, the body of a chord) is not sent
under its deadline.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass
from datetime import UTC
from functools import partial, wraps
from operator import attrgetter
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

from celery import Celery, signals
from celery.app.trace import task_has_custom
from celery.exceptions import Ignore, Retry

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs import headers as message_headers
from celery_pecker.runs import outcomes
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.outcomes import Watch
from celery_pecker.runs.reports import Reports
from celery_pecker.runs.run import Run, current, running
from celery_pecker.runs.start import Start, Starter, StartVerdict
from celery_pecker.schedules.history.report import Report

UID = "celery_pecker.runs"
"""By this name the publisher knows the receiver, and keeps to its fast lane."""

INSTANTS = Instants(SYSTEM)
"""The database's clock as this process knows it."""


def connect() -> None:
    """Send the deadline with each message that is sent under one; may be repeated."""
    signals.before_task_publish.connect(_on_publish, dispatch_uid=UID, weak=False)


def _on_publish(headers: dict[str, Any] | None = None, **_: object) -> None:
    """Add the header. A retry's is older, and its own run's, whose `pecker` counts."""
    if headers is None:
        return
    value = headers.get(message_headers.DEADLINE, ...)
    if value is None:
        del headers[message_headers.DEADLINE]
        return
    left = deadline.remaining()
    if left is None or _is_slot(headers):
        return
    if value is ... and headers.get("eta") and _waits(headers["eta"], left):
        return
    if isinstance(value, Mapping):
        left = min(left, float(value.get("left", left)))
    headers[message_headers.DEADLINE] = message_headers.deadline_header(
        left, INSTANTS.after(left), current()
    )


def _waits(eta: object, left: float) -> bool:
    """Return whether the message is for a time when nothing is left.

    An eta is of the sender's host clock, and in UTC where it names no zone.
    """
    instant = moment_of(eta, UTC)
    if instant is None:
        return False
    return (instant - SYSTEM.now()).total_seconds() >= left


def _is_slot(headers: Mapping[str, Any]) -> bool:
    """Return whether the message is the slot's own: its deadline stands in it."""
    run = current()
    header = headers.get(message_headers.PECKER)
    mine = None if run is None else message_headers.read(header, schema=run.schema)
    return mine is not None and message_headers.belongs(mine, headers.get("id"))


Call = Callable[[], Any]

MARK = "_pecker_guarded"
"""On what is wrapped, and on a request that has been looked at."""
BOUND = "_pecker_bound"
"""On a request whose end is watched here."""

DEEPEST = 20
"""Errors, each the cause of the one before, that are looked at; some are in a ring."""


class _Over(Ignore):
    """Carries DeadlineExceeded through `autoretry_for`, which lets Ignore pass."""


class _Unmasked:
    """Whatever a strike was turned into on its way out is DeadlineExceeded again.

    It is a TimeoutError, which many libraries take for their own socket's: what
    redis-py or kombu raise instead would be a failure like others, and tried again.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        error = raised[1]
        if not isinstance(error, Exception) or isinstance(error, (Ignore, Retry)):
            return
        if deadline.remaining() != 0.0 or isinstance(error, DeadlineExceeded):
            return
        cause: BaseException | None = error
        for _ in range(DEEPEST):
            if isinstance(cause, DeadlineExceeded):
                raise DeadlineExceeded(*cause.args) from error
            cause = cause and (cause.__cause__ or cause.__context__)


def ended_in_time(call: Call) -> Any:
    """Call; whatever comes back after the deadline is DeadlineExceeded."""
    try:
        with _Unmasked():
            result = call()
    except _Over as over:
        raise over.args[0] from over.args[0].__cause__
    except Retry:
        deadline.check()  # the retry would be refused: it is late too
        raise
    deadline.check()
    return result


def past_autoretry(task: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Let a deadline that is over end the task, not bring about a retry."""

    @wraps(original)
    def ended(*args: Any, **kwargs: Any) -> Any:
        try:
            with _Unmasked():
                return original(*args, **kwargs)
        except DeadlineExceeded as error:
            if not hasattr(task.request, BOUND) or deadline.remaining() != 0.0:
                raise
            raise _Over(error) from error

    setattr(ended, MARK, True)
    return ended


logger = logging.getLogger(__name__)

Bounded = Callable[..., Any]
"""Takes the moment of the end, a call, and the kind of pool if it is another."""

UNBOUNDED = frozenset({"celery.chord_unlock", "celery.backend_cleanup"})
"""Tasks of Celery's own, that serve others: they inherit no deadline."""

REPORTS = {
    StartVerdict.LATE: Report.REFUSED_LATE,
    StartVerdict.OVERTAKEN: Report.REFUSED_OVERTAKEN,
    StartVerdict.UNKNOWN: Report.REFUSED_UNKNOWN,
    StartVerdict.REPEATED: Report.REFUSED_REPEATED,
}


class Stored(Protocol):
    """Runs tasks whose messages are rows of an outbox."""

    def read(self, request: Any) -> Any:
        """Return the message's reference to its row; None: it is none of these."""

    def run(self, task: Any, row: Any, call: Call, bounded: Bounded) -> Any:
        """Run it, or not."""


def install(
    app: Celery,
    *,
    pool_kind: str,
    settings: Settings,
    host: str = "",
    stored: Stored | None = None,
) -> "Guard":
    """Wrap the tasks that `app` has by now; may be repeated.

    ``host`` is the name under which runs are reported: the worker's.
    """
    guard = _installed.get(app)
    if guard is None:
        guard = _installed[app] = Guard(
            settings, pool_kind=pool_kind, host=host, stored=stored
        )
        connect()
    for task in app.tasks.values():
        guard.wrap(task)
    return guard


@dataclass(eq=False)
class Guard:
    """Lets runs begin, and bounds them."""

    settings: Settings
    _: KW_ONLY
    pool_kind: str
    host: str = ""
    clock: Clock = SYSTEM
    stored: Stored | None = None

    def __post_init__(self) -> None:
        self._starter = Starter(self.settings, INSTANTS, self.clock)
        self._reports = Reports(self.settings, INSTANTS, host=self.host)
        self.watch = Watch(self._reports, schema=self.settings.schema)

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
            cls: Any = type(task)
            if not hasattr(vars(cls).get("__call__"), MARK):
                cls.__call__ = self._around(cls.__call__, lambda args: args[0])
        elif not hasattr(task.run, MARK):
            task.run = self._around(task.run, lambda _args: task)
        inner = vars(task).get("_orig_run")
        if inner is not None and not hasattr(inner, MARK):
            task._orig_run = past_autoretry(task, inner)  # noqa: SLF001  # Celery's

    def _around(
        self, original: Callable[..., Any], whose: Callable[[tuple[Any, ...]], Any]
    ) -> Callable[..., Any]:
        @wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            task = whose(args)
            request = task.request
            header, inherited = _headers_of(request)
            stored = self.stored and self.stored.read(request)
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
            if self.stored and stored is not None:
                bounded = partial(self._bounded, task, None)
                call = partial(original, *args, **kwargs)
                return self.stored.run(task, stored, call, bounded)
            return self._run(task, header, inherited, lambda: original(*args, **kwargs))

        setattr(guarded, MARK, True)
        return guarded

    # Deciding

    def _run(self, task: Any, header: object, inherited: object, call: Call) -> Any:
        run = message_headers.read(
            header, schema=self.settings.schema, attempt=task.request.retries
        )
        if run is not None and message_headers.belongs(run, task.request.id):
            if _is_mine(current(), run):
                # A local run: the runner has done all else.
                return ended_in_time(call)
            return self._run_slot(
                task, run, call, asked=message_headers.is_requested(header)
            )
        sender = message_headers.inherited(inherited, schema=self.settings.schema)
        return call() if sender is None else self._run_subtask(task, sender, call)

    def _run_slot(self, task: Any, run: Run, call: Call, *, asked: bool) -> Any:
        if run.deadline is None:
            with running(run):
                return call()
        start = self._starter.start(run, asked=asked)
        if start.verdict is not StartVerdict.STARTED:
            self._refuse(task, run, start)
        return self._bounded(task, run, start.ends, call)

    def _run_subtask(
        self, task: Any, sender: message_headers.Inherited, call: Call
    ) -> Any:
        begun = self.clock.monotonic()
        self._starter.read_clock(sender.left)
        ends = min(begun + sender.left, INSTANTS.moment(sender.at))
        return self._bounded(task, sender.run, ends, call)

    def _refuse(self, task: Any, run: Run | None, start: Start) -> NoReturn:
        verdict = start.verdict
        name = task.name if run is None else run.name
        logger.log(
            logging.WARNING if verdict is StartVerdict.UNKNOWN else logging.INFO,
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
        pool = pool or self.pool_kind
        return copy_context().run(self._within, task, run, ends, call, pool)

    def _within(  # as above
        self, task: Any, run: Run | None, ends: float, call: Call, pool: str
    ) -> Any:
        try:
            with running(run), deadline.until(ends, task.name):
                # The process may have stood still since the answer came.
                if self.clock.monotonic() >= ends:
                    self._refuse(task, run, Start(verdict=StartVerdict.LATE))
                with deadline.enforce(pool):
                    return ended_in_time(call)
        except DeadlineExceeded as error:
            if self.clock.monotonic() >= ends:
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
    header = beside.get(message_headers.PECKER)
    inherited = beside.get(message_headers.DEADLINE)
    known = collected if isinstance(collected, Mapping) else {}
    if header is None and inherited is None:
        return known.get(message_headers.PECKER), known.get(message_headers.DEADLINE)
    ours = {message_headers.PECKER: header, message_headers.DEADLINE: inherited}
    if any(known.get(key) is not value for key, value in ours.items()):
        present = {key: value for key, value in ours.items() if value is not None}
        request.headers = {**known, **present}
    return header, inherited


def _is_mine(mine: Run | None, run: Run) -> bool:
    claim = attrgetter("name", "due_at", "epoch")
    return mine is not None and claim(mine) == claim(run)


_installed: WeakKeyDictionary[Celery, Guard] = WeakKeyDictionary()
