"""Notify: called once for each threshold that progress crossed, and never back."""

from __future__ import annotations

from typing import Any

from celery.exceptions import WorkerShutdown, WorkerTerminate

from celery_pecker.foreign import survive
from celery_sharding.codec import decode
from celery_sharding.errors import JobNotFound
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.telling import Threshold
from celery_sharding.model import Job
from celery_sharding.processor import Processor

ENDS = (KeyboardInterrupt, WorkerShutdown, WorkerTerminate)
"""What ends this process, whatever it runs."""


def notify(app: Any, task_id: str) -> int:
    """Notify was called for each threshold that is due; return how many times.

    A threshold is one process' before its Notify is called: it is called never twice,
    and not again where it failed or its process died.
    """
    ledger = at(app)
    told = 0
    stands = _standing(ledger, task_id)
    while stands is not None and stands.notified < stands.due:
        processor = getattr(app.tasks.get(stands.task), "processor", None)
        if processor is None or processor.notify is None:
            break
        if ledger.outcomes.notified(stands.job, stands.notified + 1):
            failed = survive(
                f"Notify of {stands.task} ({task_id})",
                _call,
                ledger,
                processor,
                stands,
            )
            if isinstance(failed, ENDS):
                raise failed
            told += 1
        stands = _standing(ledger, task_id)
    return told


def _standing(ledger: Ledger, task_id: str) -> Threshold | None:
    try:
        job = ledger.reading.job(task_id).job
    except JobNotFound:
        return None
    return ledger.outcomes.threshold(job)


def _call(ledger: Ledger, processor: Processor, stands: Threshold) -> None:
    given = decode(stands.call)
    job = Job(
        id=stands.task_id,
        task=stands.task,
        args=tuple(given["args"]),
        kwargs=given["kwargs"],
        run=stands.run,
    )
    assert processor.notify is not None  # noqa: S101  # asked before
    processor.notify(job, ledger.reading.progress(stands.task_id))
