"""Report progress to the result backend and, by a message, to Notify."""

from __future__ import annotations

from typing import Any

from celery_sharding.flow.bars import report
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.reporting import Threshold
from celery_sharding.ledger.upkeep import REPORT_INTERVAL
from celery_sharding.messages import send_notify
from celery_sharding.model import Stage
from celery_sharding.settings import ShardingSettings


def report_progress(app: Any, ledger: Ledger, job: int, stage: Stage) -> None:
    """Report the progress, unless it was reported within the last second.

    Notify's message is sent when a threshold is due, and after a while once more: the
    ledger drops what comes twice. Once the items have ended each call looks, for there
    are few.
    """
    if stage is Stage.SHARDING and not ledger.outcomes.claim_report(
        job, every=REPORT_INTERVAL
    ):
        return
    stands = ledger.outcomes.threshold(job)
    if stands is None:
        return
    if stands.stage is not Stage.SHARDING:
        notify(app, stands)
        return
    report(app, stands)
    resend = ShardingSettings.read(app.conf).resend
    if (
        stands.notified < stands.due
        and ledger.outcomes.claim_notify(job, resend=resend)
        and not notify(app, stands)
    ):
        ledger.outcomes.unsent(job)


def notify(app: Any, stands: Threshold) -> bool:
    """Send Notify's message if one is due; return whether the broker took it."""
    if stands.notified >= stands.due:
        return False
    return send_notify(
        app,
        stands.task,
        stands.task_id,
        continuation=stands.continuation,
        queue=stands.queue,
    )
