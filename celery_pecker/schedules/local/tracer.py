"""One run through Celery's own tracer.

So signals, hooks of the task (`on_failure` …), logs and whatever patched the tracer
(Sentry does) are as in a worker's pool. What differs:

- No result is stored: a run must not wait for a backend that is away.
- There are no retries: the next slot is the next try. `retry()` raises what failed.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import states
from celery.app import trace
from celery.utils.serialization import get_pickled_exception, raise_with_context
from kombu.utils.encoding import safe_repr

from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import PeckerError

logger = logging.getLogger("celery_pecker.schedules.local")

EXC = 2
"""Place of the exception among the arguments of `Task.retry`."""


NO_RETRIES = "pecker_no_retries"
"""On a request whose next try is not the task's business: a row of an outbox."""


class NotRetried(PeckerError):
    """A run in the worker that won it is not retried: the next slot is its next try."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    state: str
    runtime: float | None = None
    result: str = ""
    error: BaseException | None = None
    exception: str = ""
    traceback: str = ""


class _Unstored(trace.TraceInfo):
    """A failure goes to hooks, signals and logs, not to the result backend."""

    def handle_error_state(
        self,
        task: Any,
        req: Any,
        eager: bool = False,
        call_errbacks: bool = True,
    ) -> Any:
        handle = (
            self.handle_retry if self.state == states.RETRY else self.handle_failure
        )
        return handle(task, req, store_errors=False, call_errbacks=False)


def request_of(
    headers: Mapping[str, Any], task_id: str, hostname: str, **way: Any
) -> dict[str, Any]:
    """Return what a worker makes of a message, for a run that has none.

    ``way``: exchange, routing_key and priority of the one that was recorded.
    """
    return {
        **headers,
        "hostname": hostname,
        # No caller waits for it, and an unreachable backend must not delay it.
        "ignore_result": True,
        "is_eager": False,
        "utc": True,
        "reply_to": None,
        "properties": {},
        "correlation_id": task_id,
        "delivery_info": {
            "exchange": "",
            "routing_key": None,
            "priority": None,
            **way,
            "redelivered": False,
            "local": True,
        },
    }


def run(
    app: Any,
    task: Any,
    request: dict[str, Any],
    args: list[Any],
    kwargs: Mapping[str, Any],
) -> Ended:
    """Run the task; return how it ended, whatever it raised."""
    refuse_retries(task)
    # By the module, and each time: instrumentation puts its own function there, and
    # its own `run` and `__call__` on the task.
    tracer = trace.build_tracer(
        task.name, task, app=app, hostname=request["hostname"], Info=_Unstored
    )
    traced: list[Any] = []

    def trace_it() -> None:
        traced.append(tracer(request["id"], args, dict(kwargs), request))

    error = user_code.call_logging_errors(f"the run of {task.name}", trace_it)
    if error is not None:
        return fallen(error)
    return _ended(traced[0])


def fallen(error: BaseException) -> Ended:
    """Return the end of a run that raised through the tracer: SystemExit does."""
    info = ExceptionInfo((type(error), error, error.__traceback__))
    return Ended(
        state=states.FAILURE,
        error=error,
        exception=safe_repr(error),
        traceback=info.traceback or "",
    )


def _ended(traced: Any) -> Ended:
    value, info, runtime, text = traced
    if info is None:
        if isinstance(value, ExceptionInfo):  # the tracer itself failed
            return fallen(value.exception or PeckerError())
        return Ended(state=states.SUCCESS, runtime=runtime, result=text or "")
    error = info.retval if isinstance(info.retval, Exception) else None
    stack = value.traceback if isinstance(value, ExceptionInfo) else ""
    return Ended(
        state=info.state,
        error=error,
        exception=safe_repr(get_pickled_exception(error)) if error else "",
        traceback=stack or "",
    )


def refuse_retries(task: Any) -> None:
    """Let `retry()` of the task raise what failed, in local runs; idempotent.

    Celery would publish it, under the id of a slot that is over: it would wait for the
    broker, and run when the next slots have long run. A row of an outbox comes by
    itself for its next try. Elsewhere `retry()` is as ever.
    """
    original = task.retry
    if getattr(original, "refuses", False):
        return

    def retry(*args: Any, **kwargs: Any) -> Any:
        if not (
            "local" in (task.request.delivery_info or ())
            or hasattr(task.request, NO_RETRIES)
        ):
            return original(*args, **kwargs)
        if not hasattr(task.request, NO_RETRIES):
            logger.warning("pecker: %s is not retried in a local run", task.name)
        cause = kwargs.get("exc") or (args[2] if len(args) > EXC else None)
        raise_with_context(cause or NotRetried())
        return None

    retry.refuses = True  # type: ignore[attr-defined]
    task.retry = retry
