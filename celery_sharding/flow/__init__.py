"""What follows when something happened to a job: called by any process, at any time.

    `advance_job`  expired holds end, the next layer opens, messages are sent
    `cancel` …     what ends a job early, and what follows at once
    `serving`      which workers a job's shards may be dealt to
    ``progress``   progress goes to the result backend, and Notify is called
    ``outcomes``   an outcome as Celery has it; a cancelled job is reported to Celery

Each step is a compare-and-set in the ledger, and each message may be lost: a process
that does the same once more (a worker at the end of its slice, the sweeper) completes
what is left.
"""

from collections.abc import Sequence
from typing import Any

from celery_sharding import pace
from celery_sharding.flow.outcomes import report_cancelled
from celery_sharding.flow.progress import report_progress
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.outcomes import Advanced, Outgoing, Threshold
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.ledger.tickets import Overdue
from celery_sharding.ledger.upkeep import LiveWorker
from celery_sharding.messages import queues_of, send_job, send_tickets, wait_of
from celery_sharding.model import Hold, Outcome, Stage, Turn
from celery_sharding.process import prefix_of


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
    ledger.tickets.end_expired(job)
    stands = ledger.outcomes.advance(job)
    if stands is None:
        return None
    report_progress(app, ledger, job, stands.stage)
    if stands.stage is Stage.SHARDING:
        send_open_tickets(app, ledger, job, even=stands.even)
    else:
        send(app, ledger, job)
    return stands.stage


def close(app: Any, ledger: Ledger, hold: Hold) -> Advanced | None:
    """Move a job on whose own message this process has in hand; return where it is.

    What comes after its items is the caller's: no message for that is sent, and the
    ticket is free once the last layer was closed by this (`moved`).
    """
    stands = ledger.outcomes.advance(hold.job, hold)
    if stands is not None and stands.stage is Stage.SHARDING:
        report_progress(app, ledger, hold.job, stands.stage)
        send_open_tickets(app, ledger, hold.job)
    return stands


def send_open_tickets(
    app: Any,
    ledger: Ledger,
    job: int,
    *,
    even: bool = False,
) -> int:
    """Send the tickets that are of use; return how many.

    ``even``: the job's shards belong to workers, and each ticket goes to one of them.
    """
    slots = ledger.upkeep.slots()
    where: dict[str | None, list[tuple[int, int, int]]] = {}
    if even:
        for one in ledger.placements.to_publish(job, slots=slots, resend=pace.RESEND):
            where.setdefault(one.direct_queue, []).append((job, one.ticket, one.seq))
    else:
        tickets = ledger.tickets.to_publish(job, slots=slots, resend=pace.RESEND)
        where[None] = [(job, ticket, seq) for ticket, seq in tickets]
    count = sum(map(len, where.values()))
    stands = ledger.outcomes.threshold(job) if count else None
    if stands is None:
        return 0
    for direct, some in where.items():
        publish_tickets(app, ledger, stands, some, direct=direct)
    return count


def publish_tickets(
    app: Any,
    ledger: Ledger,
    of: Threshold | Overdue | Turn,
    tickets: Sequence[tuple[int, int, int]],
    *,
    direct: str | None = None,
) -> None:
    """Send tickets of a job, each (job, ticket, seq); see `messages.send_tickets`.

    Those that the broker does not take lie idle, and not as if they had been lost:
    after an hour without a broker they would be waited for.
    """
    if not send_tickets(
        app,
        of.task,
        tickets,
        continuation=of.continuation,
        queue=of.queue,
        direct=direct,
    ):
        (job, _, _), *_ = tickets
        ledger.tickets.unsent(job, [(ticket, seq) for _, ticket, seq in tickets])


def send(app: Any, ledger: Ledger, job: int) -> int:
    """Send the messages of the job and of its followers that are due."""
    due = ledger.outcomes.sending(job, resend=pace.RESEND)
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


# What users do to a job, and what follows at once: the sweeper need not come first.


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
