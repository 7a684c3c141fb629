"""What people do to a job: pause, resume, cancel, change its options, run parts again.

An ended job that is run again has one more run: its layers, then Post once, with what
is there by then. All is written in one transaction, the job's row first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from celery_sharding.errors import (
    InstanceNotFound,
    JobNotFound,
    Misconfigured,
    WrongStage,
)
from celery_sharding.ledger.base import Repository, jsonb
from celery_sharding.ledger.outcomes import OPEN, JobOutcomes
from celery_sharding.ledger.reading import Errors
from celery_sharding.ledger.tickets import Tickets
from celery_sharding.model import Outcome, Stage
from celery_sharding.policies import as_json, check, from_json

STATEMENT_TIMEOUT = 60.0
"""Seconds that one statement may take: a job may have a million errors."""

ALL = {"origins": None, "places": None}
"""Which errors are meant."""


class _Nothing(Exception):
    """Nothing is to be rerun: the transaction is undone, the job stays."""


class Reopening(Repository):
    """Ended jobs get one more run."""

    def retry_failed(self, task_id: str, group: str | None = None) -> int:
        """Reopen what did not succeed of an ended job; return how many items.

        Failed items by shards of their own, shards that ended early from where they
        were. Where all succeeded: nothing, or Post alone if that is what failed, or
        PreProcess. Raises JobNotFound, WrongStage.

        ``group``: the fingerprint of the errors whose items run again; all others stay
        as they are, and what was not begun runs in any case. Where there is none of
        these errors: nothing.
        """
        try:
            with self.database.transaction(timeout=STATEMENT_TIMEOUT):
                return self._retry(task_id, group)
        except _Nothing:
            return 0

    def rerun(self, task_id: str, shards: Sequence[int]) -> int:
        """Reopen those shards of an ended job, whole; return how many items.

        For one that repeats failed items of another, that other is run. Shards that
        had not ended when the job did run too. Raises JobNotFound, InstanceNotFound,
        WrongStage.
        """
        with self.database.transaction(timeout=STATEMENT_TIMEOUT):
            job, _, _, _ = self._reopened(task_id)
            asked = [one for one in shards if _number(one)]
            rows = self._run("origins_of_shards", job=job, shards=asked)
            origin_of = {row[0]: row[1] for row in rows}
            absent = [str(one) for one in shards if one not in origin_of]
            if absent or not origin_of:
                which = ", ".join(absent) or "(none was named)"
                raise InstanceNotFound(f"the job {task_id} has no shard {which}")
            origins = sorted({*origin_of.values()})
            Tickets(self.database).end_all_holds(job)
            self._restart(job, origins)
            return self._counted(job)

    def _retry(self, task_id: str, group: str | None) -> int:
        job, outcome, planned, most = self._reopened(task_id)
        meant = ALL if group is None else self._places(job, group)
        if not planned:
            self._change_one("restart_job", job=job, stage=Stage.SUBMITTED.value)
            return 0
        Tickets(self.database).end_all_holds(job)
        whole = self._numbers("whole_failures", job=job, **meant)
        if whole:
            self._restart(job, whole)
        self._change("resume_shards", job=job, **meant)
        self._change("repeat_failures", job=job, most=most, **meant)
        self._change("forget_errors", job=job, **meant)
        items = self._counted(job)
        if not items and outcome is Outcome.SUCCEEDED:
            raise _Nothing
        if not items:
            self._change_one("restart_job", job=job, stage=Stage.POSTING.value)
        return items

    def _places(self, job: int, group: str) -> Mapping[str, list[int]]:
        """Return where the errors of that fingerprint are; there is one at least."""
        seen = Errors(self.database).each_seen(job)
        places = [one.id for one in seen if one.fingerprint == group]
        if not places:
            raise _Nothing
        origins, at = zip(*places, strict=True)
        return {"origins": [*origins], "places": [*at]}

    def _restart(self, job: int, origins: list[int]) -> None:
        """Reset these shards, and what hangs on them, to how they were planned."""
        self._change("forget_results", job=job, origins=origins)
        self._change("forget_errors", job=job, origins=origins, places=None)
        self._change("restart_shards", job=job, origins=origins)

    def _reopened(self, task_id: str) -> tuple[int, Outcome, bool, int]:
        """Give the job one more run.

        Return its number, its outcome until now, whether it was planned, and how many
        items a shard of it has at most.
        """
        try:
            row = self._run_one("reopen_job", task_id=task_id)
        except psycopg.errors.UniqueViolation as error:
            raise WrongStage(
                f"another job with the key of {task_id} runs: it has to end first"
            ) from error
        if row is None:
            raise self._refusal(task_id, "rerun", (Stage.ENDED,))
        job, outcome, planned, options = row
        return job, Outcome(outcome), planned, from_json(options).size[1]

    def _counted(self, job: int) -> int:
        """Set the first layer with open shards; return the items to be run."""
        self._change("recount_layers", job=job)
        self._change("first_open_layer", job=job)
        return int(self._run("count_open_items", job=job)[0][0])

    def _job(self, task_id: str) -> int:
        rows = self._run("known_job", task_id=task_id)
        if not rows:
            raise _missing(task_id)
        return int(rows[0][0])

    def _refusal(self, task_id: str, done: str, stages: Sequence[Stage]) -> Exception:
        """Return why a job cannot be treated so: it is not there, or elsewhere."""
        rows = self._run("known_job", task_id=task_id)
        if not rows:
            return _missing(task_id)
        _, leader, stage, _, forgotten = rows[0]
        if forgotten:
            message = (
                f"the job {task_id} is being forgotten: it ended longer ago than"
                " sharding_retention says"
            )
            return JobNotFound(message)
        if leader is not None and stages == (Stage.ENDED,):
            message = (
                f"the job {task_id} has no shards of its own, it followed {leader}"
                f" (the same key): {leader} can be {done}"
            )
            return WrongStage(message)
        allowed = ", ".join(stages)
        return WrongStage(
            f"the job {task_id} cannot be {done}: its stage is {stage}, not {allowed}"
        )


def _missing(task_id: str) -> JobNotFound:
    return JobNotFound(f"no sharded job has the task id {task_id!r}")


def _number(value: object) -> bool:
    """Return whether it can be the number of a shard."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 0 <= value < 2**31


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
        if not JobOutcomes(self.database).decide(job, Outcome.CANCELLED):
            raise self._refusal(task_id, "cancelled", OPEN)
        return job

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
        raise WrongStage(
            f"the options of {task_id} are being changed by others: ask again"
        )

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
            raise Misconfigured(f"a job with on_error of kind {kind} has no max_failed")
        else:
            allowed = ", ".join([*LIVE, POLICY])
            raise Misconfigured(
                f"{name} cannot be changed while a job runs; {allowed} can"
            )
    return after
