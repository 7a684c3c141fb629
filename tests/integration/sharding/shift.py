"""A worker's shift, by hand: tickets are taken, shards are run, and written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from celery_sharding.codec import encode
from celery_sharding.ledger import Ledger
from celery_sharding.model import (
    Code,
    Failure,
    Hold,
    HoldReply,
    Shard,
    Stage,
    Step,
    Turn,
)

LEASE = 15.0


def taken(ledger: Ledger, job: int, holder: str = "worker:1:a") -> Turn:
    """Return the turn of the one worker that takes tickets of the job."""
    turns = []
    for ticket, seq in ledger.tickets.to_publish(job, slots=None, resend=10.0):
        turn = ledger.tickets.take(
            job, ticket, seq, holder=holder, hostname="worker", lease=LEASE
        )
        assert turn is not None
        turns.append(turn)
    for turn in turns[1:]:
        ledger.tickets.set_idle(turn.hold)
    return turns[0]


def failure(shard: Shard, index: int, *, message: str = "bad row") -> Failure:
    """Return what is written of a failed item of a shard."""
    return Failure(
        origin=shard.origin,
        place=shard.place(index),
        shard=shard.shard,
        layer=shard.layer,
        code=Code.FAILED,
        attempt=1,
        type="ValueError",
        message=message,
    )


def whole(shard: Shard) -> Failure:
    """Return what is written of a shard that failed as a whole."""
    return Failure(
        origin=shard.origin,
        place=-1,
        shard=shard.shard,
        layer=shard.layer,
        code=Code.FAILED,
        attempt=1,
        type="RuntimeError",
        message="flush failed",
    )


def closing(shard: Shard, failing: Collection[tuple[int, int]] = ()) -> Step:
    """Return the last step of a shard; items named (origin, place) failed."""
    failures = tuple(
        failure(shard, index)
        for index in range(shard.cursor, shard.count)
        if (shard.origin, shard.place(index)) in failing
    )
    well = [
        shard.place(index)
        for index in range(shard.cursor, shard.count)
        if (shard.origin, shard.place(index)) not in failing
    ]
    return Step(
        shard=shard.shard,
        cursor=shard.count,
        ahead=shard.count,
        done=shard.done + len(well),
        failed=shard.failed + len(failures),
        status=Code.SUCCEEDED,
        results=encode([[shard.origin, place] for place in well]),
        failures=failures,
    )


def run_layer(
    ledger: Ledger,
    job: int,
    failing: Collection[tuple[int, int]] = (),
    end: Callable[[Shard], Step | None] = lambda _: None,
) -> list[Shard]:
    """Run what may be claimed of the job now; return the shards as they were claimed.

    ``end`` may say with what step a shard ends.
    """
    turn = taken(ledger, job)
    ran: list[Shard] = []
    while True:
        found = ledger.shards.claim(turn.hold, layer=turn.layer, most=1)
        if not found:
            break
        ran += found
        step = end(found[0]) or closing(found[0], failing)
        word = ledger.shards.write(turn.hold, [step], lease=LEASE)
        assert word.held
    ledger.tickets.set_idle(turn.hold)
    return ran


def run_job(
    ledger: Ledger, job: int, failing: Collection[tuple[int, int]] = ()
) -> list[Shard]:
    """Run all layers of a job; it is at posting then, or decided."""
    ran: list[Shard] = []
    while True:
        stands = ledger.outcomes.advance(job)
        assert stands is not None
        if stands.stage != "sharding":
            return ran
        ran += run_layer(ledger, job, failing)


def ended(ledger: Ledger, task_id: str, value: Any = "posted") -> None:
    """Post of the job is run, and Celery knows: the job has ended."""
    turn = ledger.outcomes.begin_post(
        task_id, "poster:1:a", LEASE, run=run_of(ledger, task_id)
    )
    assert turn is not None
    assert ledger.outcomes.post_done(turn, encode(value), lease=LEASE)
    assert ledger.outcomes.delivered(task_id)


def run_of(ledger: Ledger, task_id: str) -> int:
    """Return which run the job is in."""
    stands = ledger.outcomes.stage_of(task_id)
    assert stands is not None
    return stands[1]


def goes_on(reply: HoldReply, hold: Hold) -> bool:
    """Return whether the holder may start another item of the first layer."""
    return (
        reply.held
        and reply.stage is Stage.SHARDING
        and not reply.paused
        and hold.ticket <= reply.concurrency
        and reply.layer == 0
    )
