"""Moving a job on: from the ledger's side, and by the messages that it calls for."""

from __future__ import annotations

from typing import Any

from celery_sharding.flow.outcomes import report_cancelled
from celery_sharding.flow.progress import report_progress
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.advancing import Advanced
from celery_sharding.ledger.posting import Outgoing
from celery_sharding.ledger.upkeep import LiveWorker
from celery_sharding.messages import queues_of, send_job, send_tickets, wait_of
from celery_sharding.model import Hold, Outcome, Stage
from celery_sharding.settings import ShardingSettings


def serving(app: Any, ledger: Ledger, job: int) -> list[LiveWorker]:
    """Return the live workers that consume from the job's queue, by name.

    Only workers that a message can be sent to alone have a ``direct_queue``.
    """
    stands = ledger.outcomes.threshold(job)
    if stands is None:
        return []
    return ledger.placements.serving(
        queues_of(app, stands.task, stands.continuation, stands.queue)
    )


def advance_job(app: Any, ledger: Ledger, job: int) -> Stage | None:
    """Advance the job as far as it can be, send what it needs; return its stage.

    None: there is no such job. May be called any number of times, by several at once.
    Raises DatabaseUnavailable; a broker that is away is logged, and the sweeper sends
    again.
    """
    settings = ShardingSettings.read(app.conf)
    ledger.tickets.end_expired(job)
    stands = ledger.outcomes.advance(job)
    if stands is None:
        return None
    report_progress(app, ledger, job, stands.stage)
    if stands.stage is Stage.SHARDING:
        send_open_tickets(app, ledger, job, settings, even=stands.even)
    else:
        send(app, ledger, job, settings)
    return stands.stage


def close(app: Any, ledger: Ledger, hold: Hold) -> Advanced | None:
    """Move a job on whose own message this process has in hand; return where it is.

    What comes after its items is the caller's: no message for that is sent, and the
    ticket is free once the last layer was closed by this (`moved`).
    """
    settings = ShardingSettings.read(app.conf)
    stands = ledger.outcomes.advance(hold.job, hold)
    if stands is not None and stands.stage is Stage.SHARDING:
        report_progress(app, ledger, hold.job, stands.stage)
        send_open_tickets(app, ledger, hold.job, settings)
    return stands


def send_open_tickets(
    app: Any,
    ledger: Ledger,
    job: int,
    settings: ShardingSettings,
    *,
    even: bool = False,
) -> int:
    """Send the tickets that are of use; return how many.

    ``even``: the job's shards belong to workers, and each ticket goes to one of them.
    """
    slots = ledger.upkeep.slots()
    resend = settings.resend
    where: dict[str | None, list[tuple[int, int, int]]] = {}
    if even:
        for one in ledger.placements.to_publish(job, slots=slots, resend=resend):
            where.setdefault(one.direct_queue, []).append((job, one.ticket, one.seq))
    else:
        tickets = ledger.tickets.to_publish(job, slots=slots, resend=resend)
        where[None] = [(job, ticket, seq) for ticket, seq in tickets]
    count = sum(map(len, where.values()))
    stands = ledger.outcomes.threshold(job) if count else None
    if stands is None:
        return 0
    for direct, some in where.items():
        if not send_tickets(
            app,
            stands.task,
            some,
            continuation=stands.continuation,
            queue=stands.queue,
            direct=direct,
        ):
            # Not as if they had been lost: after an hour without a broker they would
            # be waited for.
            ledger.tickets.unsent(job, [(ticket, seq) for _, ticket, seq in some])
    return count


def send(app: Any, ledger: Ledger, job: int, settings: ShardingSettings) -> int:
    """Send the messages of the job and of its followers that are due."""
    due = ledger.outcomes.sending(job, resend=settings.resend)
    for one in due:
        _send(app, ledger, one)
    return len(due)


def _send(app: Any, ledger: Ledger, one: Outgoing) -> None:
    if one.stage is Stage.DELIVERING and one.outcome is Outcome.CANCELLED:
        # Not by a message: revoking the task has made workers drop those.
        report_cancelled(app, ledger, one.task_id, run=one.run)
        return
    begun = one.stage is not Stage.SUBMITTED
    if not send_job(
        app,
        one.task,
        one.task_id,
        continuation=one.continuation,
        run=one.run,
        begun=begun,
    ):
        ledger.outcomes.unsent(one.job)
    elif not begun and (wait := wait_of(one.continuation)):
        # A worker holds it until then; it would hold one more with each sweep.
        ledger.submissions.sent(one.task_id, after=wait)
