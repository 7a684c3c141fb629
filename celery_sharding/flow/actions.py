"""What users do to a job, and what follows at once: the sweeper need not come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery_sharding.flow.next_step import advance_job
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.model import Outcome, Stage
from celery_sharding.process import prefix_of


def pause(app: Any, ledger: Ledger, task_id: str) -> None:
    """Begin no further item of the job; items that run go on to their end."""
    del app
    ledger.control.pause(task_id)


def resume(app: Any, ledger: Ledger, task_id: str) -> None:
    """Resume a paused job."""
    advance_job(app, ledger, ledger.control.resume(task_id))


def cancel(app: Any, ledger: Ledger, task_id: str) -> None:
    """End the job as cancelled; what runs stops at its next item."""
    advance_job(app, ledger, ledger.control.cancel(task_id))


def expire(app: Any, ledger: Ledger, task_id: str) -> None:
    """End the job as cancelled, unless it had begun before it expired."""
    job = ledger.reading.job(task_id).job
    if ledger.outcomes.decide(job, Outcome.CANCELLED, stages=(Stage.SUBMITTED,)):
        advance_job(app, ledger, job)


def fail(
    app: Any, ledger: Ledger, task_id: str, error: Exception, *, process: int
) -> bool:
    """Fail the job, if that process of this host runs its stage; return whether.

    For PreProcess and Post whose process cannot write the failure itself.
    """
    job = ledger.reading.job(task_id).job
    failed = ledger.outcomes.decide(
        job,
        Outcome.FAILED,
        error=reason_of(error),
        stages=(Stage.PLANNING, Stage.POSTING),
        holder=prefix_of(process),
    )
    if failed:
        advance_job(app, ledger, job)
    return failed


def set_concurrency(app: Any, ledger: Ledger, task_id: str, most: int) -> None:
    """Run at most so many shards of the job at once."""
    advance_job(app, ledger, ledger.control.concurrency(task_id, most))


def set_options(app: Any, ledger: Ledger, task_id: str, **changes: Any) -> None:
    """Change options of the job, for what is begun from now on."""
    advance_job(app, ledger, ledger.control.options(task_id, **changes))


def retry_failed(app: Any, ledger: Ledger, task_id: str) -> int:
    """Rerun what did not succeed of an ended job; return how many items."""
    job, items = ledger.control.retry(task_id)
    advance_job(app, ledger, job)
    return items


def rerun(app: Any, ledger: Ledger, task_id: str, shards: Sequence[int]) -> int:
    """Rerun those shards of an ended job, whole; return how many items."""
    job, items = ledger.control.repeat(task_id, shards)
    advance_job(app, ledger, job)
    return items
