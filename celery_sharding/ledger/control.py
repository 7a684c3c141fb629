"""What users do to a job: one statement each, whatever its size."""

from __future__ import annotations

from typing import Any

from celery_sharding.errors import Misconfigured, WrongStage
from celery_sharding.ledger.advancing import OPEN, Advancing
from celery_sharding.ledger.base import jsonb
from celery_sharding.ledger.reopening import Reopening
from celery_sharding.model import Outcome
from celery_sharding.policies import as_json, check, from_json

ROUNDS = 5
"""How often options are changed that another changes at the same time."""
POLICY = "max_failed"
"""The one that is a field of `on_error`."""
LIVE = ("concurrency", "deadline", "item_timeout", "shard_deadline")
"""What may be another while a job runs, besides that one."""
STAGES = [stage.value for stage in OPEN]


class Control(Reopening):
    """Jobs that have not ended are paused, cancelled and changed; ended ones repeated.

    Each returns the job's number, for a caller that has messages to send. Raises
    JobNotFound, or WrongStage where it is too late, or too early.
    """

    def pause(self, task_id: str) -> int:
        """Begin no item of the job from now on, nor Post."""
        return self._paused(task_id, paused=True)

    def resume(self, task_id: str) -> int:
        """Let the job go on, if it was paused."""
        return self._paused(task_id, paused=False)

    def cancel(self, task_id: str) -> int:
        """Decide the job as cancelled; nothing of it is begun."""
        job = self._job(task_id)
        if not Advancing(self.database, self.now).decide(job, Outcome.CANCELLED):
            raise self._refusal(task_id, "cancelled", OPEN)
        return job

    def concurrency(self, task_id: str, most: int) -> int:
        """Set how many shards of the job run at once, at most."""
        return self.options(task_id, concurrency=most)

    def options(self, task_id: str, **changes: Any) -> int:
        """Change options of the job; they hold for what is begun from now on.

        ``max_failed`` is that of its `on_error`; a ``deadline`` counts from its
        submission. Raises Misconfigured for what is no such option, or cannot be.
        """
        for _ in range(ROUNDS):
            rows = self._run("read_options", task_id=task_id)
            if not rows or rows[0][1] not in STAGES:
                raise self._refusal(task_id, "changed", OPEN)
            job, _, before = rows[0]
            options = check(from_json(_changed(before, changes)))
            changed = self._change_one(
                "change_options",
                job=job,
                before=jsonb(before),
                options=jsonb(as_json(options)),
                concurrency=options.concurrency,
                deadline=options.deadline,
                stages=STAGES,
            )
            if changed:
                return int(job)
        message = f"the options of {task_id} are being changed by others: ask again"
        raise WrongStage(message)

    def _paused(self, task_id: str, *, paused: bool) -> int:
        row = self._run_one("pause_job", task_id=task_id, paused=paused, stages=STAGES)
        if row is None:
            raise self._refusal(task_id, "paused" if paused else "resumed", OPEN)
        return int(row[0])


def _changed(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    after = {**before}
    for name, value in changes.items():
        if name in LIVE:
            after[name] = value
        elif name == POLICY and POLICY in after["on_error"]:
            after["on_error"] = {**after["on_error"], POLICY: value}
        elif name == POLICY:
            kind = after["on_error"]["kind"]
            message = f"a job with on_error of kind {kind} has no max_failed"
            raise Misconfigured(message)
        else:
            allowed = ", ".join([*LIVE, POLICY])
            message = f"{name} cannot be changed while a job runs; {allowed} can"
            raise Misconfigured(message)
    return after
