"""The leases of Post and of the report to Celery, and what each may write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_sharding.ledger.base import Repository, StageLease, jsonb, record
from celery_sharding.model import Outcome, Stage

MAX_DELIVERIES = 3
"""How often an outcome is reported that Celery cannot take: then the job ends
anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Where a job is, and its outcome if it has one."""

    task_id: str
    stage: Stage
    outcome: Outcome | None
    value: bytes | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing(Decided):
    """A job of which this process is to send a message, or to report the outcome."""

    job: int
    task: str
    run: int
    continuation: Mapping[str, Any]
    epoch: int = 0
    """Of the report, and how often it was begun."""
    attempts: int = 0


class Posting(Repository):
    """Jobs at stages posting and delivering."""

    def begin_post(
        self, task_id: str, holder: str, lease: float, *, run: int = 1
    ) -> StageLease | None:
        """Return the lease to run Post; None: another process has it.

        None: another does, the job is paused or not there yet, or not any more.
        ``lease``: seconds until a silent holder counts as dead.
        """
        begun = record(StageLease.begun, task_id=task_id, holder=holder, lease=lease)
        return self._read_one(
            begun, "begin_post", task_id=task_id, holder=holder, lease=lease, run=run
        )

    def renew_post(self, job: int, epoch: int, lease: float) -> bool:
        """Renew the lease on Post or its delivery; return whether it still stands."""
        return self._renew(job, epoch, lease, "posting", "delivering")

    def left(self, prefix: str) -> list[int]:
        """End the leases of a dead process on stages of jobs; return the jobs.

        Names of its holders begin like that: "host:123:".
        """
        return self._numbers("end_stages", prefix=prefix)

    def leave(self, job: int, epoch: int, *, counts: bool) -> bool:
        """Free PreProcess or Post of that epoch for others; return whether.

        ``counts``: False where it is as if it had not been begun.
        """
        return self._change_one("free_stage", job=job, epoch=epoch, counts=counts)

    def post_done(
        self,
        turn: StageLease,
        value: bytes | None,
        *,
        error: Mapping[str, Any] | None = None,
        lease: float,
    ) -> bool:
        """Make Post's result the job's outcome, once; return whether.

        ``error``: it raised; see `reasons`. This process reports it within the lease.
        """
        outcome = Outcome.SUCCEEDED if error is None else Outcome.FAILED
        with self.database.transaction():
            ended = self._change_one(
                "end_post",
                job=turn.job,
                epoch=turn.epoch,
                holder=turn.holder,
                outcome=outcome.value,
                value=value,
                error=None if error is None else jsonb({**error}),
                lease=lease,
            )
            if ended:
                self._change("decide_followers", job=turn.job)
        return ended

    def delivery(
        self, task_id: str, holder: str, lease: float, *, run: int = 1
    ) -> Outgoing | None:
        """Return what this process is to report to Celery; None: not this process."""
        begun = record(Outgoing, task_id=task_id, stage=Stage.DELIVERING)
        return self._read_one(
            begun,
            "begin_delivery",
            task_id=task_id,
            holder=holder,
            lease=lease,
            run=run,
        )

    def delivered(
        self, task_id: str, *, run: int | None = None, troubled: bool = False
    ) -> bool:
        """End the job, since Celery knows its outcome; return whether.

        ``troubled``: Celery got a success, and made a failure of it because it
        could not send what follows. The job is reported once more then, some times.
        ``run``: the one whose outcome it was; None: that which stands.
        """
        return self._change_one(
            "end_delivery",
            task_id=task_id,
            run=run,
            troubled=troubled,
            most=MAX_DELIVERIES,
        )

    def stage_of(self, task_id: str) -> tuple[Stage, int] | None:
        """Return where a job is, and in which run; None: there is no such job."""
        rows = self._run("stage_of_job", task_id=task_id)
        return (Stage(rows[0][0]), rows[0][1]) if rows else None

    def decided(self, task_id: str) -> Decided | None:
        """Return a job's outcome, if it has one; None: there is no such job."""
        read = record(Decided, task_id=task_id)
        return self._read_one(read, "read_outcome", task_id=task_id)

    def sending(self, job: int, *, resend: float) -> list[Outgoing]:
        """Return the messages that this process is to send now, the followers' too.

        ``resend``: seconds after which an untaken message counts as lost.
        """
        return self._read(record(Outgoing), "send_again", job=job, resend=resend)

    def unsent(self, job: int) -> bool:
        """Have the job's message sent anew, since the broker did not take it."""
        return self._change_one("unsent_job", job=job)
