"""Repairs what dead processes left: a schedule of the app, every second.

    declare  the app's schedule gets the sweeper and the purge
    sweep    lapsed holds end, closed layers move on, lost messages are sent again
    purge    jobs that ended long ago are forgotten

No message of a job is load-bearing, because this comes after: it asks the ledger which
jobs are to be advanced, and advances them as any process would (`flow.advance_job`).
Several at once do no harm.
"""

import logging
from itertools import groupby
from operator import attrgetter
from typing import Any

from celery_pecker import deadline
from celery_pecker.kernel.clock import chance, monotonic
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.settings import Settings as Pecker
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding import pace
from celery_sharding.errors import (
    DatabaseUnavailable,
    JobDeadlineExceeded,
    NoExecutor,
)
from celery_sharding.flow import advance_job, publish_tickets, serving
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.messages import PURGE, SWEEP
from celery_sharding.model import Outcome, Stage
from celery_sharding.plan import assign
from celery_sharding.settings import ShardingSettings

logger = logging.getLogger(__name__)

HOUR = 3_600.0
LOGGERS = ("celery.app.trace", "celery.worker.strategy", "celery_pecker.beat")
"""Where Celery writes that a task was received, and that it succeeded, and where a
scheduler writes that it woke."""


class _Unchanged(logging.Filter):
    """Drops the lines of each second that a sweep came, and went well."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be written."""
        if record.levelno > logging.INFO:
            return True
        data: Any = getattr(record, "data", None)
        wanted: Any = getattr(record, "wanted", ())
        ours = isinstance(data, dict) and data.get("name") == SWEEP
        return not ours and [one.entry.name for one in wanted[:2]] != [SWEEP]


UNCHANGED = _Unchanged()


def declare(app: Any) -> None:
    """Add the sweeper and the purge to the app's schedule.

    Where each worker is a scheduler they run on a thread of the worker
    that won them: no broker is asked. Else they are sent, and a message that waited
    for its successor is dropped. An entry of that name that is there already stays.
    """
    for name in LOGGERS:
        logging.getLogger(name).addFilter(UNCHANGED)
    local = "scheduler" in (app.conf.get("pecker_worker") or ())
    schedule = dict(app.conf.beat_schedule or {})
    for task, period in ((SWEEP, pace.SWEEP), (PURGE, HOUR)):
        schedule.setdefault(task, _entry(task, period, local=local))
    app.conf.beat_schedule = schedule


def _entry(task: str, period: float, *, local: bool) -> dict[str, Any]:
    if local:
        return {"task": task, "schedule": period, "pecker": {"run": "local"}}
    return {"task": task, "schedule": period, "options": {"expires": max(period, 1.0)}}


PURGE_TIME = 20.0
"""Seconds for which one purge goes on; what is left is the next one's."""


def purge(app: Any) -> int:
    """Delete jobs that ended before sharding_retention; return how many rows."""
    ledger = at(app, role="sweeper")
    retention = ShardingSettings.read(app.conf).retention
    end = monotonic() + PURGE_TIME
    gone = 0
    while part := ledger.upkeep.purge(retention):
        gone += part
        if monotonic() >= end:
            break
    return gone


BEFORE_POST = (Stage.SUBMITTED, Stage.PLANNING, Stage.SHARDING)
"""Where a deadline counts: it is that of the last item."""
LONGEST = 20.0
"""Seconds for which a sweep goes on; the next one takes up what is left."""
PART = 0.8
"""Of what a local run has: what is begun then may still come to its end."""
MOST = 500
"""Tickets that are marked as sent once more before they are published."""
_complaints = OnceAMinute(logger, prefix="sharding: ")


def sweep(app: Any) -> dict[str, int]:
    """Repair what dead processes left, as far as one sweep comes; return counts.

    lapsed: jobs with holds whose lease was over; late: jobs beyond their deadline;
    resent: tickets whose message was not taken; moved: jobs that were moved on; dealt:
    shards that were dealt to other workers. A job that cannot be moved is logged, and
    keeps no other waiting.
    """
    # A local run has less than its period. Where the database is busy it must not be
    # struck in the middle, just when something is to be repaired: it ends by itself.
    left = deadline.remaining()
    end = monotonic() + (LONGEST if left is None else min(left * PART, LONGEST))
    with deadline.detached():
        try:
            return _sweep(app, end)
        except (DatabaseUnavailable, deadline.DeadlineExceeded) as error:
            logger.warning("sharding: a sweep ended early, the next goes on: %s", error)
            return {}


def _sweep(app: Any, end: float) -> dict[str, int]:
    ledger = at(app, role="sweeper")
    lapsed = ledger.tickets.end_expired()
    late = _late(ledger)
    resent = _resend(app, ledger, end)
    dealt = _deal(app, ledger)
    due = ledger.upkeep.due(resend=pace.RESEND)
    for job in due.followers:
        ledger.upkeep.catch_up(job)
    _complain(ledger)
    _count(app, ledger)
    moved = 0
    # From anywhere on: those at the end of many would else never have their turn.
    # What is left is due still, and the next sweep finds it.
    jobs = [*dict.fromkeys((*lapsed, *late, *dealt, *due.jobs))]
    first = int(chance() * len(jobs))
    for job in (*jobs[first:], *jobs[:first]):
        error = call_logging_errors(
            f"sweeping the sharded job {job}", _advance, app, ledger, job
        )
        if error is not None and not isinstance(error, Exception):
            raise error
        moved += error is None
        if monotonic() >= end:
            break
    return {
        "lapsed": len(lapsed),
        "late": len(late),
        "resent": resent,
        "moved": moved,
        "dealt": sum(dealt.values()),
    }


def _advance(app: Any, ledger: Ledger, job: int) -> None:
    """Move the job on; a database that is busy or away is no error of the sweeper's."""
    try:
        advance_job(app, ledger, job)
    except (DatabaseUnavailable, deadline.DeadlineExceeded) as error:
        logger.warning("sharding: job %s waits for the next sweep: %s", job, error)


def _resend(app: Any, ledger: Ledger, end: float) -> int:
    """Publish tickets once more whose message was not taken; return how many.

    All of a job at once, and without a look at the job: where a queue is long there are
    as many of them as jobs in it.
    """
    sent = 0
    while monotonic() < end:
        overdue = ledger.tickets.resend(resend=pace.RESEND, most=MOST)
        for job, some in groupby(sorted(overdue), attrgetter("job")):
            tickets = [*some]
            sent_now = [(job, one.ticket, one.seq) for one in tickets]
            publish_tickets(app, ledger, tickets[0], sent_now)
        sent += len(overdue)
        if len(overdue) < MOST:
            break
    return sent


def _late(ledger: Ledger) -> list[int]:
    """Fail jobs beyond their deadline; return them."""
    late = []
    for job, task_id, seconds in ledger.upkeep.deadlines():
        message = (
            f"the job {task_id} was to end within {seconds:g} s of its submission, and"
            " did not"
        )
        if ledger.outcomes.decide(
            job,
            Outcome.FAILED,
            error=reason_of(JobDeadlineExceeded(message)),
            stages=BEFORE_POST,
        ):
            late.append(job)
    return late


def _deal(app: Any, ledger: Ledger) -> dict[int, int]:
    """Free shards assigned to workers that are gone; return how many of which job.

    Where no worker that serves their job can be reached alone, they are for any.
    """
    dealt = {}
    for job, orphans in ledger.placements.orphans().items():
        live = [one.hostname for one in serving(app, ledger, job) if one.direct_queue]
        owners: list[tuple[int, str | None]] = [(shard, None) for shard in orphans]
        if live:
            owners = [
                (shard, hostname)
                for hostname, shards in assign(orphans, live).items()
                for shard in shards
            ]
        dealt[job] = ledger.placements.deal(job, owners)
    return dealt


def _count(app: Any, ledger: Ledger) -> None:
    """Add jobs to the history, once a minute; nothing depends on it."""
    wanted = ledger.upkeep.minute_is_over() and Pecker.read(app.conf, main=app.main)
    try:
        if wanted and wanted.history:
            ledger.upkeep.count_jobs()
    except PeckerError as error:
        _complaints.warning("history", "jobs are not in the history: %s", error)


def _complain(ledger: Ledger) -> None:
    """Warn now and then of jobs that wait while no live worker runs them."""
    if ledger.upkeep.slots() is None and (waiting := ledger.reading.totals().sharding):
        error = NoExecutor(f"{waiting} sharded jobs wait for a worker that runs them")
        _complaints.warning("no executor", "%s", error)
