"""Calls of sharded tasks, stored before any message of them is sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from celery_sharding.codec import decode, encode
from celery_sharding.errors import (
    DatabaseUnavailable,
    InstanceNotFound,
    ItemNotSerializable,
    SubmissionUnknown,
)
from celery_sharding.ledger.base import Repository, jsonb
from celery_sharding.model import Options, Stage
from celery_sharding.plan import from_stored
from celery_sharding.plan.arguments import split
from celery_sharding.policies import as_json, check

ITEMS = "__sharding_items__"
"""The one key of what stands in a call in place of stored items: their reference."""
ROUNDS = 10
"""How often a key may change hands while one submission looks at it."""
TRIES = 2
"""How often a job is written to a ledger that does not answer."""
BRIEFLY = 5.0
"""Seconds for which a frozen caller may keep others from a job that it withdraws."""


def names_items(argument: object) -> bool:
    """Return whether the argument names stored items."""
    return isinstance(argument, Mapping) and argument.keys() == {ITEMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A call that is to become a job."""

    task_id: str
    task: str
    args: tuple[Any, ...]
    """What names stored items stands in them, never the items. Sources are objects."""
    kwargs: Mapping[str, Any]
    continuation: Mapping[str, Any]
    """What Celery is to go on with when the job has ended, as options of a message."""
    options: Options
    key: str | None = None
    follow: bool = False
    """Whether something waits for its own task id: it cannot be another job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What became of a call."""

    job: int
    task_id: str
    """The call's own; the leader's, where the call was not to follow."""
    fresh: bool
    """Whether this made a row, and nothing else of this call can make it."""
    leader: str | None = None
    """The task id of the job that has its key, and whose outcome it shares."""


class Submissions(Repository):
    """Rows of jobs that have not begun, and the items that calls brought."""

    def store(self, ref: str, body: bytes, items: int) -> None:
        """Store the encoded items under that reference; a second time changes nothing.

        ``items``: how many there are.
        """
        self._change("store_items", ref=ref, body=body, items=items)

    def load(self, ref: str) -> bytes:
        """Return what was stored; raise InstanceNotFound where nothing is."""
        rows = self._run("load_items", ref=ref)
        if not rows:
            raise InstanceNotFound(_absent(ref))
        body: bytes = rows[0][0]
        return body

    def with_items(self, argument: Any) -> Any:
        """Return an argument as the caller passed it: items for what names them."""
        if names_items(argument):
            return from_stored(decode(self.load(argument[ITEMS])))
        return argument

    def list_source(self, ref: str) -> None:
        """List a Source that a message is to have; the purge takes it as it does items.

        It is kept as if it had been listed now, each time that it is named.
        """
        if not self.is_listed(ref):
            self.store(ref, b"", 0)

    def is_listed(self, ref: str) -> bool:
        """Return whether the Source is listed; if so, it is kept as if listed now."""
        return bool(self._run("touch_items", refs=[ref])[0][0])

    def submit(self, new: NewJob, *, follow: bool = False) -> Submitted:
        """Write the call to the ledger, once however often it is submitted.

        Where its key has a leader that has not ended: the leader is returned, or with
        ``follow`` a row of its own that shares the leader's outcome. Raises
        Misconfigured for options that cannot be, ItemNotSerializable for arguments
        that are no JSON, InstanceNotFound for items that were purged; then nothing is
        stored. Items that are named are kept as if they were stored now.

        An answer that was lost is asked for once more: the task id shows whether the
        row is there. Raises SubmissionUnknown where that is not answered either, and
        DatabaseUnavailable where nothing was stored.
        """
        options = as_json(check(new.options))
        args, kwargs, sources = split(new.args, new.kwargs)
        call = {"args": [*args], "kwargs": kwargs, "sources": sources}
        row = {
            "task_id": new.task_id,
            "task": new.task,
            "key": new.key,
            "concurrency": new.options.concurrency,
            "options": jsonb(options),
            "call": encode(call, what=f"an argument of {new.task}"),
            "continuation": jsonb({**new.continuation}),
        }
        refs = {one[ITEMS] for one in new.args if names_items(one)}
        if refs and self._run("touch_items", refs=[*refs])[0][0] < len(refs):
            raise InstanceNotFound(_absent(", ".join(sorted(refs))))
        try:
            return self._answered(row, new.options.deadline, follow=follow)
        except psycopg.DataError as error:
            raise ItemNotSerializable(
                f"the call of {new.task} cannot be stored: its key and what Celery is"
                f" to go on with must be text for PostgreSQL: {error}"
            ) from error

    def _answered(
        self, row: dict[str, Any], deadline: float | None, *, follow: bool
    ) -> Submitted:
        asked = False
        for last in [False] * (TRIES - 1) + [True]:
            try:
                done = self._submitted(row, deadline, follow=follow)
            except DatabaseUnavailable as error:
                asked = asked or error.asked
                if not asked:
                    raise
                if last:
                    raise unknown(row["task_id"], error) from error
            else:
                # What was asked first may still be done, after all of this.
                return replace(done, fresh=done.fresh and not asked)
        raise AssertionError

    def _submitted(
        self, row: dict[str, Any], deadline: float | None, *, follow: bool
    ) -> Submitted:
        task_id = row["task_id"]
        for _ in range(ROUNDS):
            made = self._run("submit_job", **row, deadline=deadline)
            if made:
                return Submitted(job=made[0][0], task_id=task_id, fresh=True)
            known = self._run("known_job", task_id=task_id)
            if known:
                job, leader, *_ = known[0]
                return Submitted(job=job, task_id=task_id, fresh=False, leader=leader)
            leaders = self._run("leader_of_key", task=row["task"], key=row["key"])
            if not leaders:
                continue  # it has ended meanwhile: the key is free
            job, leader = leaders[0]
            if not follow:
                return Submitted(job=job, task_id=leader, fresh=False, leader=leader)
            made = self._run("follow_job", leader=job, **row)
            if made:
                return Submitted(
                    job=made[0][0], task_id=task_id, fresh=True, leader=leader
                )
        message = (
            f"key {row['key']!r} of {row['task']} changed hands {ROUNDS} times while"
            f" {task_id} was submitted; nothing was stored"
        )
        changed = DatabaseUnavailable(message)
        changed.asked = False
        raise changed

    def reached(self, task_id: str, continuation: Mapping[str, Any]) -> Stage | None:
        """Return where the job is whose message arrived; None: there is no such row.

        While it has not begun, ``continuation`` is laid over that of the call.
        """
        rows = self._run(
            "reach_job", task_id=task_id, continuation=jsonb({**continuation})
        )
        return Stage(rows[0][0]) if rows else None

    def sent(self, task_id: str, after: float = 0.0) -> None:
        """Record that the job's message was sent, to be taken after those seconds."""
        self._change_one("sent_job", task_id=task_id, after=after)

    def withdraw(self, task_id: str) -> bool:
        """Delete a job whose message could not be sent; return whether it is gone.

        False: it has begun, or another call follows it. Items stay until the purge,
        because a signature that is called twice has stored them once.
        """
        with self.bounded(BRIEFLY):
            held = self._run("hold_submitted", task_id=task_id)
            if held:
                return self._change_one("withdraw_job", job=held[0][0])
            return not self._run("known_job", task_id=task_id)


def unknown(task_id: str, error: Exception) -> SubmissionUnknown:
    """Return what to raise where it is not known whether a job stands."""
    message = (
        f"it is unknown whether the job {task_id} was submitted, and it may run: a call"
        f" with task_id={task_id!r} is the same job ({error})"
    )
    return SubmissionUnknown(message, task_id)


def _absent(ref: str) -> str:
    return (
        f"the items of the call ({ref}) are not in the ledger: they"
        " were purged (sharding_retention), or it is another database"
    )
