"""What a dead process left, which workers live, and what may be forgotten."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.figure_tables import EVERY, write
from celery_pecker.kernel.figures import CANCELLED, OUTCOME, Figures
from celery_sharding.ledger.base import Repository

FRESH = 15.0
"""Seconds for which a worker that was seen counts as living; it is seen every five."""
STEP = 60.0
"""Seconds by which its clock was set back, at least, where that is put right; less is
waited for."""
REPORT_INTERVAL = 1.0
"""Seconds between two tellings of how far a job is."""
COUNTER = uuid.UUID(int=1)
"""The name under which jobs are counted in the history, by whatever process."""
COUNTED = {
    "submitted": f"{OUTCOME}1",
    "succeeded": f"{OUTCOME}11",
    "failed": f"{OUTCOME}12",
    "cancelled": CANCELLED,
}
"""What is counted of a job, as of a run that was sent, ended well and failed."""
AT_ONCE = 20
"""Jobs that one round of the purge takes."""
PURGED = (
    *("purge_results", "purge_errors", "purge_items"),
    *("purge_shards", "purge_tickets", "purge_layers"),
)
"""The statements that delete what jobs have."""
SET_BACK = (
    *("set_back_tickets", "set_back_shards"),
    *("set_back_jobs", "set_back_executors"),
)
"""The statements that set back instants."""


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that runs shards, as last seen."""

    hostname: str
    slots: int
    """Shards that it runs at once."""
    direct_queue: str | None
    """The queue that it alone consumes from, if there is one."""
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Jobs to be moved on, by their numbers."""

    messages: Sequence[int]
    """Their own message was not taken, or the process at their stage died."""
    shards: Sequence[int]
    """A ticket is to be sent for them, or their layer is closed."""
    followers: Sequence[int]
    """They were decided, and those that follow them were not."""
    reports: Sequence[int] = ()
    """They run, and their progress is to be reported."""

    @property
    def jobs(self) -> list[int]:
        """All of them, each once; first those for which no result backend is asked."""
        numbers = (*self.shards, *self.messages, *self.followers, *self.reports)
        return [*dict.fromkeys(numbers)]


class Upkeep(Repository):
    """Questions of the sweeper, and of workers."""

    _count_at = 0.0
    """When jobs are counted next, by the monotonic clock."""

    # Jobs

    def due(self, *, resend: float, most: int = 200) -> Due:
        """Return jobs to be moved on, at most so many of each kind.

        ``resend``: seconds after which an untaken message counts as lost.
        """
        return Due(
            messages=self._numbers("due_messages", resend=resend, most=most),
            shards=self._numbers("due_shards", slots=self.slots(), most=most),
            followers=self._numbers("due_followers", most=most),
            reports=self._numbers(
                "due_reports", every=REPORT_INTERVAL, resend=resend, most=most
            ),
        )

    def catch_up(self, job: int) -> int:
        """Share a decided job's outcome with its followers; return how many got it."""
        return self._change("decide_followers", job=job)

    def deadlines(self, *, most: int = 200) -> list[tuple[int, str, float]]:
        """Return jobs that should have ended: number, task id, and their deadline."""
        return [
            (job, task_id, float(deadline or 0))
            for job, task_id, deadline in self._run("over_deadline", most=most)
        ]

    # Workers

    def record_worker(
        self,
        hostname: str,
        slots: int,
        direct_queue: str | None = None,
        *,
        queues: Sequence[str] = (),
    ) -> None:
        """Record that a worker lives, its number of slots, and its queues."""
        self._change(
            "record_executor",
            hostname=hostname,
            slots=slots,
            direct_queue=direct_queue,
            queues=[*queues],
            fresh=FRESH,
        )

    def record_worker_end(self, hostname: str) -> None:
        """Record that a worker has ended in good order."""
        self._change_one("forget_executor", hostname=hostname)

    def slots(self) -> int | None:
        """Return how many shards live workers run at once; None: none was seen."""
        slots = self._run("live_slots", fresh=FRESH)[0][0]
        return None if slots is None else int(slots)

    # The clock

    def follow_clock(self) -> float:
        """Set back what was written before PostgreSQL's clock was set back.

        Return by how many seconds; 0.0: it was not, or by less than a minute.
        """
        ahead = self._run("clock_ahead")[0][0]
        if ahead is None or ahead < STEP:
            return 0.0
        with self.database.transaction():
            for label in SET_BACK:
                self._change(label, seconds=ahead)
        return float(ahead)

    # The history

    def minute_is_over(self) -> bool:
        """Return True once a minute: then jobs are counted."""
        now = monotonic()
        due = now >= self._count_at
        if due:
            self._count_at = now + EVERY
        return due

    def count_jobs(self) -> None:
        """Write how many jobs were submitted and ended in the minutes that are over.

        Whoever comes first: all write under one name, and find the same.
        """
        figures = Figures()
        for at_us, task, what, count in self._run(
            "count_jobs", now=None, holder=COUNTER
        ):
            figures.add(f"job {task}", at_us, COUNTED[what], count)
        write(self.database, COUNTER, figures.ready(0.0, leaving=True))

    # The purge

    def purge(self, retention: float, *, most: int = 1_000) -> int:
        """Delete a part of what ended so many seconds ago; return how many rows.

        At most ``most`` rows of one kind at a time: no other write waits for long. 0:
        nothing is left to purge.
        """
        jobs = self._numbers("forget_jobs", retention=retention, most=AT_ONCE)
        gone = self._purge(jobs, most) if jobs else 0
        gone += self._change("purge_inputs", retention=retention, most=most)
        return gone + self._change("forget_silent_executors")

    def _purge(self, jobs: list[int], most: int) -> int:
        counts = [self._change(label, jobs=jobs, most=most) for label in PURGED]
        # The job is what names its rows: it goes last, when none is left.
        if max(counts) < most:
            return sum(counts) + self._change("purge_jobs", jobs=jobs)
        return sum(counts)
