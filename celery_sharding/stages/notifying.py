"""Notify: called once for each threshold that progress crossed, and never back."""

import threading
from dataclasses import replace
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.codec import decode
from celery_sharding.errors import JobNotFound
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.outcomes import Threshold
from celery_sharding.model import Job
from celery_sharding.process import holder_name, process_end
from celery_sharding.processor import Processor
from celery_sharding.settings import ShardingSettings
from celery_sharding.stages.leases import LeaseRenewal

PAUSE = 0.05
"""Seconds between two looks at a Notify that is called elsewhere."""


def notify(app: Any, task_id: str, *, waits: float = 0.0) -> int:
    """Call Notify for each threshold that is due; return how many times.

    In their order, by one process at a time. A threshold is noted before its Notify is
    called: it is called never twice, and not again where it failed or its process died.
    ``waits``: seconds for which one that is called elsewhere is waited for, if any.
    """
    ledger = at(app)
    holder, over = holder_name(), monotonic() + waits
    called = 0
    while True:
        stands = _standing(ledger, task_id)
        if stands is None or not stands.every:
            return called
        if stands.notified >= stands.due and not waits:
            return called
        processor = getattr(app.tasks.get(stands.task), "processor", None)
        if processor is None or processor.notify is None:
            return called
        lease = ShardingSettings.read(app.conf).lease
        if ledger.outcomes.hold_notify(stands.job, holder, lease):
            called += _call_all(app, ledger, processor, stands, holder)
            ledger.outcomes.release_notify(stands.job, holder)
            if waits:
                return called
            # A message that came meanwhile was dropped: what it was for is looked for.
        elif monotonic() >= over:
            return called
        else:
            threading.Event().wait(PAUSE)


def _call_all(
    app: Any, ledger: Ledger, processor: Processor, first: Threshold, holder: str
) -> int:
    """Call Notify for what is due, if no other process does; return how often."""
    job, task_id, lease = (
        first.job,
        first.task_id,
        ShardingSettings.read(app.conf).lease,
    )
    called = 0
    stands: Threshold | None = first
    with LeaseRenewal(
        app, lease, lambda mine: mine.outcomes.hold_notify(job, holder, lease)
    ) as renewal:
        while stands is not None and stands.notified < stands.due and not renewal.lost:
            if not ledger.outcomes.notified(job, stands.notified + 1, holder):
                break
            failed = call_logging_errors(
                f"Notify of {stands.task} ({task_id})",
                _call,
                ledger,
                processor,
                stands,
            )
            end = None if failed is None else process_end(failed)
            if end is not None:
                raise end
            called += 1
            stands = _standing(ledger, task_id)
    return called


def _standing(ledger: Ledger, task_id: str) -> Threshold | None:
    try:
        job = ledger.reading.job(task_id).job
    except JobNotFound:
        return None
    return ledger.outcomes.threshold(job)


def _call(ledger: Ledger, processor: Processor, stands: Threshold) -> None:
    arguments = decode(stands.call)
    job = Job(
        id=stands.task_id,
        task=stands.task,
        args=tuple(arguments["args"]),
        kwargs=arguments["kwargs"],
        run=stands.run,
    )
    assert processor.notify is not None  # noqa: S101  # asked before
    threshold = round((stands.notified + 1) * (stands.every or 0.0), 9)
    progress = ledger.reading.progress(stands.task_id)
    processor.notify(job, replace(progress, threshold=min(threshold, 1.0)))
