"""An outcome as Celery has it: the exception of a failure; a job that was cancelled."""

from collections.abc import Mapping
from typing import Any

from celery.app.task import Context
from celery.states import FAILURE, REVOKED, SUCCESS
from kombu.exceptions import OperationalError

from celery_pecker.kernel.user_code import call, call_logging_errors
from celery_sharding.codec import decode
from celery_sharding.errors import JobCancelled, JobFailed
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.outcomes import MAX_DELIVERIES, Decided, Outgoing
from celery_sharding.ledger.reasons import as_celery
from celery_sharding.messages import followed, without_links
from celery_sharding.model import Outcome
from celery_sharding.process import holder_name
from celery_sharding.settings import ShardingSettings


def raised(app: Any, reason: Mapping[str, Any]) -> Exception:
    """Return the exception of a failure that stands in the ledger.

    Of a class that this process does not know, or whose arguments are other ones,
    Celery makes one of the same name.
    """
    message = str(reason.get("message", ""))
    made: BaseException = call(
        "making a stored failure's exception",
        JobFailed(message),
        app.backend.exception_to_python,
        as_celery(reason),
    )
    # A class that ends processes is none that a worker may meet.
    return made if isinstance(made, Exception) else JobFailed(f"{made!r}")


def stored(app: Any, decided: Decided) -> tuple[Any, str]:
    """Return what Celery's result backend holds of a decided job: result and state."""
    if decided.outcome is Outcome.CANCELLED:
        return JobCancelled(f"the job {decided.task_id} was cancelled"), REVOKED
    if decided.error is not None:
        return raised(app, decided.error), FAILURE
    return (None if decided.value is None else decode(decided.value)), SUCCESS


def report_cancelled(app: Any, ledger: Ledger, task_id: str, *, run: int = 1) -> bool:
    """Report to Celery that the job was cancelled; return whether it knows now.

    Its state is REVOKED, and its result JobCancelled: errbacks are called, a chord it
    is part of fails, and so do the steps of a chain that were to follow. False: another
    process reports it, or the backend is away; then it is reported later.
    """
    lease = ShardingSettings.read(app.conf).lease
    delivery = ledger.outcomes.delivery(task_id, holder_name(), lease, run=run)
    if delivery is None:
        return False
    error = JobCancelled(f"the job {task_id} of {delivery.task} was cancelled")
    backend = getattr(app.tasks.get(delivery.task), "backend", None) or app.backend
    request = context(delivery)
    failed = call_logging_errors(
        f"reporting to Celery that {task_id} was cancelled",
        backend.mark_as_failure,
        task_id,
        error,
        request=request,
        store_result=not request.ignore_result,
        state=REVOKED,
    )
    if failed is not None:
        if not isinstance(failed, Exception):
            raise failed
        if _passing(backend, failed) or delivery.attempts < MAX_DELIVERIES:
            return False
    return ledger.outcomes.delivered(task_id, run=run)


def context(delivery: Outgoing) -> Any:
    """Return a request as Celery's backends read it."""
    continuation = delivery.continuation
    if delivery.run > 1:
        continuation = without_links(continuation)
    return Context(
        {
            "id": delivery.task_id,
            "task": delivery.task,
            "args": (),
            "kwargs": {},
            **followed(continuation, group="group"),
            "root_id": continuation.get("root_id") or delivery.task_id,
            "correlation_id": delivery.task_id,
            "ignore_result": bool(continuation.get("ignore_result")),
            "stamps": {
                name: continuation[name]
                for name in continuation.get("stamped_headers") or ()
                if name in continuation
            },
            "delivery_info": {"priority": continuation.get("priority")},
        }
    )


def _passing(backend: Any, error: Exception) -> bool:
    """Return whether the backend or the broker was away, and may take it later."""
    if isinstance(error, (OSError, OperationalError)):
        return True
    return bool(backend.exception_safe_to_retry(error))
