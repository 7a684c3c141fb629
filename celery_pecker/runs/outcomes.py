"""What became of a run, seen where every pool reports it: in the worker's main process.

A child of a prefork pool has no metrics port, and one that is killed reports nothing.
Celery's request is called back at every end: a result, an exception, a child that was
lost. So requests of slots are watched there, with and without a timeout. What only the
run itself can know (refused and why, overrun) it writes on the exception that ends it,
and pickle carries that along.
"""

import weakref
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback  # type: ignore[attr-defined]
from billiard.exceptions import Terminated, WorkerLostError
from celery.exceptions import (
    Ignore,
    NotRegistered,
    Reject,
    Retry,
    TaskRevokedError,
)
from celery.signals import task_rejected, task_revoked, task_unknown
from kombu.utils.encoding import safe_repr
from kombu.utils.imports import symbol_by_name

from celery_pecker import signals
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.runs import headers
from celery_pecker.runs.reports import Reports
from celery_pecker.runs.run import Run
from celery_pecker.schedules.history.report import Report

WATCHED = "_pecker_watched"
"""On a class of requests that is watched here."""
_MARK = "_pecker_outcome"
"""On an exception: the number of the report that the run itself made of it."""

REFUSED = {
    Report.REFUSED_LATE: "late",
    Report.REFUSED_OVERTAKEN: "overtaken",
    Report.REFUSED_REPEATED: "repeated",
    Report.REFUSED_UNKNOWN: "unknown",
}
Error = TypeVar("Error", bound=Exception)
LOST = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)


def mark(error: Error, report: Report) -> Error:
    """Write on the exception that ends a run what became of it; once only."""
    if not hasattr(error, _MARK):
        setattr(error, _MARK, int(report))
    return error


def exited(error: BaseException | None) -> SystemExit | None:
    """Return the SystemExit that the run's own code raised; None: it did not.

    Pools without processes pass it on as the context of a WorkerLostError.
    """
    if isinstance(error, WorkerLostError):
        error = error.__context__
    own = isinstance(error, SystemExit) and error.code not in user_code.BY_SIGNAL
    return error if own else None  # type: ignore[return-value]  # the line above


def outcome(error: BaseException | None) -> Report | None:
    """Return what a run came to that ended with this; None: it will go on."""
    if error is None:
        return Report.SUCCEEDED
    marked = getattr(error, _MARK, None)
    if isinstance(marked, int):
        return Report(marked)
    if isinstance(error, Reject):
        return None if getattr(error, "requeue", False) else Report.FAILED
    if isinstance(error, Retry):
        return None
    if isinstance(error, Ignore):
        return Report.SUCCEEDED
    lost = isinstance(error, LOST) and exited(error) is None
    return Report.LOST if lost else Report.FAILED


class Watch:
    """Watches the requests of one worker."""

    def __init__(self, reports: Reports, *, schema: str) -> None:
        self._reports = reports
        self._schema = schema
        self._classes: dict[Any, Any] = {}
        self._tasks: weakref.WeakSet[Any] = weakref.WeakSet()
        task_revoked.connect(self._on_revoked, weak=True)
        for signal in (task_unknown, task_rejected):
            signal.connect(self._on_dropped, weak=True)

    def wrap(self, task: Any) -> None:
        """Have the requests of the task watched from the next connection on."""
        base = symbol_by_name(task.Request)
        if hasattr(base, WATCHED):
            return
        if base not in self._classes:
            self._classes[base] = _watched(base, self.began, self.ended)
        task.Request = self._classes[base]
        self._tasks.add(task)

    def run_of(self, request: Any) -> Run | None:
        """Return the run that a request is the message of."""
        message = request.request_dict
        header = _header(message, headers.PECKER)
        if header is None:
            return None
        retries = int(message.get("retries") or 0)
        run = headers.read(header, schema=self._schema, attempt=retries)
        return run if run is not None and headers.belongs(run, request.id) else None

    def add(
        self, run: Run, task: str, error: BaseException | None, took: float | None
    ) -> None:
        """Report how a run ended, to the tables and to listeners."""
        report = outcome(error)
        if report is None:
            return
        raised = exited(error) or error
        text = "" if raised is None or report in REFUSED else safe_repr(raised)
        self._reports.add(run, report, text, None if report in REFUSED else took)
        if report in REFUSED:
            _send_refused(run.name, task, report)
        else:
            state = report.name.lower()
            signals.run_ended.send(
                signals.RunEnded(
                    name=run.name, task=task, state=state, seconds=took or 0.0
                )
            )

    def began(self, request: Any) -> None:
        """Note that the pool has begun with it."""
        run = self.run_of(request)
        if run is not None:
            request.pecker_began = SYSTEM.monotonic()
            self._reports.begin(request.id, run)

    def ended(self, request: Any, error: BaseException | None) -> None:
        """Report how a request ended, once."""
        if getattr(request, "pecker_ended", False):
            return  # Celery may report it twice: a time limit, then the child's end
        if isinstance(error, ExceptionWithTraceback):  # where the pool is no process
            error = error.exc
        run = self.run_of(request)
        if run is None:
            report = None if error is None else outcome(error)
            if report in REFUSED:  # a subtask, whose run had no time left
                _send_refused(self._on_behalf_of(request), request.name, report)
            return
        request.pecker_ended = True
        began = getattr(request, "pecker_began", None)
        self._reports.forget(request.id)
        if outcome(error) is None:  # a retry: a worker has begun it, and it goes on
            self._reports.put_off(run)
            return
        took = None if began is None else SYSTEM.monotonic() - began
        self.add(run, request.name, error, took)

    def _on_behalf_of(self, request: Any) -> str:
        header = _header(request.request_dict, headers.DEADLINE)
        sender = headers.inherited(header, schema=self._schema)
        run = None if sender is None else sender.run
        return request.name if run is None else run.name

    def _on_dropped(
        self, sender: Any, message: Any, exc: Any, name: str = "", **_: object
    ) -> None:
        """Report a message that Celery drops: no such task here, or it is refused."""
        if not any(task in self._tasks for task in sender.app.tasks.values()):
            return
        known: Mapping[str, Any] = getattr(message, "headers", None) or {}
        run = headers.read(known.get(headers.PECKER), schema=self._schema)
        if run is not None and headers.belongs(run, known.get("id")):
            error = NotRegistered(name) if name or exc is None else exc
            self.add(run, str(known.get("task", name)), error, None)

    def _on_revoked(
        self, sender: Any, request: Any, expired: bool, terminated: bool, **_: object
    ) -> None:
        """Report a message that Celery refused: it expired, or was revoked.

        One that is terminated had begun, and its end is reported as any other's.
        """
        if terminated or sender not in self._tasks:
            return
        header = getattr(request, headers.PECKER, None)
        run = headers.read(header, schema=self._schema)
        if run is not None and headers.belongs(run, request.id):
            refused: BaseException = TaskRevokedError("revoked before it started")
            if expired:
                refused = mark(Ignore("expired"), Report.REFUSED_LATE)
            self.add(run, sender.name, refused, None)


def _watched(
    base: Any,
    began: Callable[[Any], None],
    ended: Callable[[Any, BaseException | None], None],
) -> Any:
    """Return a class of requests that reports when a run begins and how it ends."""

    def report_end(request: Any, error: BaseException | None) -> None:
        user_code.call("the report of a run", None, ended, request, error)

    def seen(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def on_success(self: Any, returned: Any, **kwargs: Any) -> Any:
            if isinstance(returned, ExceptionInfo):  # SystemExit, but not of prefork
                report_end(self, returned.exception)
            else:
                failed, value, _ = returned
                report_end(self, value.exception if failed else None)
            return original(self, returned, **kwargs)

        return on_success

    class Watched(base):  # type: ignore[misc]  # whatever the task has
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            # Celery makes a subclass for each task, whose on_success calls no other.
            if "on_success" in vars(cls):
                cls.on_success = seen(cls.on_success)

        on_success = seen(base.on_success)

        def on_accepted(self, pid: int, time_accepted: float) -> None:
            user_code.call("the report of a run", None, began, self)
            super().on_accepted(pid, time_accepted)

        def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
            report_end(self, exc_info.exception)
            return super().on_failure(exc_info, *args, **kwargs)

    setattr(Watched, WATCHED, True)
    Watched.__name__ = Watched.__qualname__ = base.__name__
    return Watched


def _header(message: Mapping[str, Any], name: str) -> object:
    """Return a header of ours; messages of protocol 1 have it one level below."""
    header = message.get(name)
    return (message.get("headers") or {}).get(name) if header is None else header


def _send_refused(name: str, task: str, report: Report) -> None:
    signals.refused.send(signals.Refused(name=name, task=task, reason=REFUSED[report]))
