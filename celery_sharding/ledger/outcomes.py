"""Closing layers and deciding jobs, by asking the set of what is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery_sharding.errors import TooManyFailed
from celery_sharding.ledger.base import Repository, jsonb, record
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


class Advancing(Repository):
    """Jobs at stage sharding, and the way out of any stage."""

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
