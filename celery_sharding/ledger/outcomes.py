"""Closing layers and deciding jobs; Post; what is reported to Celery and to Notify."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery_sharding.errors import TooManyFailed
from celery_sharding.ledger.base import Repository, StageLease, jsonb, record
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.model import Hold, Outcome, Placement, Stage
from celery_sharding.policies import from_json, policy_of

OPEN: Sequence[Stage] = (
    Stage.SUBMITTED,
    Stage.PLANNING,
    Stage.SHARDING,
    Stage.POSTING,
)
"""Where a job is not decided yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """Where a job is now."""

    stage: Stage
    layer: int
    moved: bool
    """Whether it was this that moved it."""
    even: bool = False
    """Whether its shards belong to workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobState:
    """What there is to decide upon."""

    stage: Stage
    layer: int
    total: int
    options: Mapping[str, Any]
    failed: int
    open: bool
    """Whether the layer has a shard that has not ended."""
    following: int | None
    """The next layer that has one."""


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


SLACK = 1e-9
"""0.05 * 20 is not quite 1 for a computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """How far a job is, and how many of its thresholds were reported."""

    job: int
    task_id: str
    task: str
    stage: Stage
    call: bytes
    """Encoded: args and kwargs."""
    run: int
    options: Mapping[str, Any]
    continuation: Mapping[str, Any]
    notified: int
    ended: int
    total: int

    @property
    def queue(self) -> str | None:
        """Where the job's options send its messages, if they say."""
        return self.options.get("queue")

    @property
    def every(self) -> float | None:
        """The part between two thresholds; None: Notify is not asked for."""
        return self.options.get("notify_every")

    @property
    def due(self) -> int:
        """Thresholds that were crossed; 0 where Notify is not asked for."""
        if not self.every or not self.total:
            return 0
        return int(min(self.ended / self.total, 1.0) / self.every + SLACK)

    @property
    def meta(self) -> dict[str, Any]:
        """Return it as progress bars for Celery read it."""
        fraction = self.ended / self.total if self.total else 0.0
        return {
            "current": self.ended,
            "total": self.total,
            "percent": round(fraction * 100, 1),
            "pending": False,
        }


class JobOutcomes(Repository):
    """Closing of layers and jobs, Post, and what to report to others."""

    # Jobs at stage sharding, and the way out of any stage

    def advance(self, job: int, hold: Hold | None = None) -> Advanced | None:
        """Close the job's layer if all its shards have ended; None: no such job.

        Then the next layer that has open shards runs, or Post is next; or the job has
        failed, where more items failed than it allows. Called by any process, at any
        time.
        ``hold``: a ticket that lies idle once Post is next by this.
        """
        standing = self._read_one(record(_JobState), "read_job_state", job=job)
        if standing is None:
            return None
        stage, layer, moved = standing.stage, standing.layer, False
        if stage is Stage.SHARDING:
            if self._refused(job, standing):
                stage, moved = Stage.DELIVERING, True
            elif not standing.open and self._close(job, standing, hold):
                moved = True
                if standing.following is None:
                    stage = Stage.POSTING
                else:
                    layer = standing.following
        return Advanced(
            stage=stage,
            layer=layer,
            moved=moved,
            even=standing.options.get("placement") == Placement.EVEN,
        )

    def decide(
        self,
        job: int,
        outcome: Outcome,
        *,
        value: bytes | None = None,
        error: Mapping[str, Any] | None = None,
        stages: Sequence[Stage] = OPEN,
        holder: str | None = None,
    ) -> bool:
        """Decide the job's outcome, if it has none and is at these stages.

        ``holder``: only while a name that begins so holds its stage.

        Those that follow it share it. Its planner or Post may not write any
        more; holders of its tickets read that it is over.
        """
        with self.database.transaction():
            # Followers are looked for in a statement of their own, after the leader's
            # row is written: a call that begins to follow writes that row too, and is
            # seen.
            decided = self._change_one(
                "decide_job",
                job=job,
                outcome=outcome.value,
                value=value,
                error=None if error is None else jsonb({**error}),
                stages=[stage.value for stage in stages],
                holder=holder,
            )
            if decided:
                self._change("decide_followers", job=job)
        return decided

    def _refused(self, job: int, standing: _JobState) -> bool:
        """Fail the job if more failed than may; return whether."""
        policy = policy_of(from_json(standing.options))
        allowed = policy.allowed(standing.total)
        if allowed is None:
            return False
        failed = standing.failed
        if failed <= allowed and not standing.open:
            # Shards that failed as a whole with all their items well: at the end only,
            # because all errors are read for it.
            failed += int(self._run("count_whole_failures", job=job)[0][0])
        if failed <= allowed:
            return False
        first = self._run("first_failure", job=job)
        because = f"; one of them: {first[0][0]}: {first[0][1]}" if first else ""
        message = (
            f"{failed} of {standing.total} items failed, and on_error={policy!r}"
            f" allows {allowed}{because}"
        )
        return self.decide(
            job,
            Outcome.FAILED,
            error=reason_of(TooManyFailed(message)),
            stages=(Stage.SHARDING,),
        )

    def _close(self, job: int, standing: _JobState, hold: Hold | None) -> bool:
        """Close the layer; return whether this did, of several that saw its end."""
        if standing.following is None:
            return self._change_one(
                "finish_layers",
                job=job,
                layer=standing.layer,
                ticket=None if hold is None else hold.ticket,
                seq=None if hold is None else hold.seq,
            )
        return self._change_one(
            "next_layer",
            job=job,
            layer=standing.layer,
            following=standing.following,
        )

    # Jobs at stages posting and delivering

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
        rows = self._run("known_job", task_id=task_id)
        return (Stage(rows[0][2]), rows[0][3]) if rows else None

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

    # Reports of progress, and their leases

    def threshold(self, job: int) -> Threshold | None:
        """Return how far the job is; None: there is no such job.

        Shards that were given back midway count when they are held again: it may be
        less than before, so `notified` is what was reached.
        """
        return self._read_one(record(Threshold, job=job), "read_progress", job=job)

    def hold_notify(self, job: int, holder: str, lease: float) -> bool:
        """Lease Notify to that holder for so many seconds; return whether."""
        return self._change_one("hold_notify", job=job, holder=holder, lease=lease)

    def release_notify(self, job: int, holder: str) -> None:
        """Let another call Notify."""
        self._change_one("release_notify", job=job, holder=holder)

    def notified(self, job: int, step: int, holder: str | None = None) -> bool:
        """Count that threshold as reported by this holder; return whether it is."""
        return self._change_one("notify_step", job=job, step=step, holder=holder)

    def claim_notify(self, job: int, *, resend: float) -> bool:
        """Claim the message for Notify, while shards run; return whether.

        One that was not taken within six times `resend` seconds counts as lost.
        """
        return self._change_one("call_notify", job=job, resend=resend)

    def claim_report(self, job: int, *, every: float = 1.0) -> bool:
        """Claim this report of progress to the result backend; return whether."""
        return self._change_one("claim_progress", job=job, every=every)
