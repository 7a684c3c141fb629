"""A stored failure as the exception that it was, and an outcome as Celery stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.states import FAILURE, REVOKED, SUCCESS

from celery_pecker.kernel.user_code import call
from celery_sharding.codec import decode
from celery_sharding.errors import JobCancelled, JobFailed
from celery_sharding.ledger.posting import Decided
from celery_sharding.ledger.reasons import as_celery
from celery_sharding.model import Outcome


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
