"""How a job stands, in one word and one sentence. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from celery_sharding.errors import NoExecutor
from celery_sharding.ledger.rows import JobRow
from celery_sharding.model import Outcome, Stage


class State(StrEnum):
    """How a job stands, as people ask for it."""

    SUBMITTED = "submitted"
    PLANNING = "planning"
    RUNNING = "running"
    WAITING = "waiting"
    """Shards are left, and nobody holds one of its tickets."""
    STARVED = "starved"
    """No live worker runs shards."""
    PAUSED = "paused"
    POSTING = "posting"
    DELIVERING = "delivering"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Verdict(NamedTuple):
    """A word, and why."""

    state: State
    why: str


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
"""What nothing follows after, unless somebody wants it run again."""
SENT = "its message was sent, and no worker has begun it"
STARVED = "no live worker runs shards: start one with this app"
DELIVERS = "its outcome stands, and is being reported to Celery"


def verdict(row: JobRow) -> Verdict:
    """Return how a job stands."""
    if row.stage is Stage.ENDED:
        return _ended(row)
    if row.stage is Stage.DELIVERING:
        return Verdict(State.DELIVERING, DELIVERS)
    if row.paused:
        return Verdict(State.PAUSED, "somebody paused it: nothing of it runs")
    if row.stage is Stage.SHARDING:
        return _sharding(row)
    return _begun(row)


def _begun(row: JobRow) -> Verdict:
    if row.stage is Stage.SUBMITTED:
        return Verdict(State.SUBMITTED, SENT if row.executors else _starved())
    state = State(row.stage.value)
    what = "PreProcess gives its items" if state is State.PLANNING else "Post runs"
    repeats = (
        f", begun {row.attempts} times: processes died" if row.attempts > 1 else ""
    )
    return Verdict(state, what + repeats)


def _sharding(row: JobRow) -> Verdict:
    layer = f"layer {row.layer + 1} of {row.layers}"
    if row.held:
        many = f"{row.held} of at most {row.concurrency}"
        return Verdict(State.RUNNING, f"{layer}: {many} shards run")
    if not row.executors:
        return Verdict(State.STARVED, _starved())
    return Verdict(State.WAITING, f"{layer}: shards wait for a worker that is free")


def _starved() -> str:
    return f"{NoExecutor.code}: {STARVED}"


def _ended(row: JobRow) -> Verdict:
    if row.outcome is Outcome.CANCELLED:
        return Verdict(State.CANCELLED, "somebody cancelled it")
    if row.outcome is Outcome.FAILED:
        return Verdict(State.FAILED, reason(row) or "it failed")
    failed = f", {row.failed:,} items failed" if row.failed else ""
    return Verdict(State.SUCCEEDED, f"{row.done:,} of {row.total:,} items done{failed}")


def reason(row: JobRow) -> str:
    """Return why a job failed: its type and message; empty if it did not."""
    if not row.error:
        return ""
    kind, message = row.error.get("type"), row.error.get("message")
    return ": ".join(str(part) for part in (kind, message) if part)
