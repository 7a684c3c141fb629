"""Shards whose worker is gone, and who may have them."""

from __future__ import annotations

from celery_sharding.ledger import Ledger
from celery_sharding.ledger.upkeep import FRESH
from celery_sharding.model import Code, Step
from tests.integration.sharding.conftest import LEASE, Time
from tests.integration.sharding.placement.conftest import QUEUE, Beat, Owners, Placed
from tests.integration.sharding.placement.turns import (
    claim,
    closed,
    failure,
    summoned,
    take,
)


def test_all_orphans_are_dealt_at_once_those_that_run_too(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """Dealt one by one, all might go to the same worker."""
    beat("a", "b", "c")
    job = placed(["a", "b", "a", "c", "a"])
    summoned(ledger, job)
    turn = take(ledger, job, "a")
    assert [one.shard for one in claim(ledger, turn, "a", most=2)] == [0, 2]
    assert ledger.placements.orphans() == {}
    ledger.upkeep.record_worker_end("a")
    assert ledger.placements.orphans() == {job: [0, 2, 4]}


def test_who_holds_an_orphan_may_end_it(
    ledger: Ledger, placed: Placed, beat: Beat, owners: Owners
) -> None:
    """It was dealt to another for its next claim: there is none."""
    beat("a", "b")
    job = placed(["a", "b"])
    summoned(ledger, job)
    turn = take(ledger, job, "a")
    (shard,) = claim(ledger, turn, "a")
    assert ledger.placements.deal(job, [(shard.shard, "b")]) == 1
    closed(ledger, turn, shard)
    assert ledger.placements.deal(job, [(shard.shard, "a")]) == 0
    assert owners(job) == ["b", "b"]


def test_silence_counts_only_where_another_was_heard(
    ledger: Ledger, placed: Placed, beat: Beat, time: Time
) -> None:
    """After PostgreSQL was away all seem dead but who speaks first."""
    beat("a", "b")
    job = placed(["a", "b"])
    time.step(10 * FRESH)
    assert ledger.placements.orphans() == {}
    beat("a")
    assert ledger.placements.orphans() == {}
    time.step(FRESH / 3)
    beat("a")
    beat("b")
    for _ in range(4):
        time.step(FRESH / 3)
        beat("a")
    assert ledger.placements.orphans() == {job: [1]}


def test_who_has_no_queue_of_its_own_any_more_is_no_owner(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """No ticket would reach it."""
    beat("a")
    job = placed(["a"])
    ledger.upkeep.record_worker("a", 1, None, queues=[QUEUE])
    assert ledger.placements.orphans() == {job: [0]}


def test_what_a_worker_cannot_run_is_for_any(
    ledger: Ledger, placed: Placed, beat: Beat, owners: Owners
) -> None:
    """All of that job's, and no other's."""
    beat("a", "b")
    job, other = placed(["a", "b", "a"]), placed(["a"])
    assert ledger.placements.release_worker(job, "a") == 2
    assert owners(job) == [None, "b", None]
    assert owners(other) == ["a"]


def test_items_that_are_tried_again_stay_with_their_worker(
    ledger: Ledger, placed: Placed, beat: Beat, owners: Owners
) -> None:
    """In the same run, and when what failed runs again."""
    beat("a")
    job = placed(["a"])
    summoned(ledger, job)
    turn = take(ledger, job, "a")
    (shard,) = claim(ledger, turn, "a")
    step = Step(
        shard=0,
        cursor=1,
        ahead=1,
        done=0,
        failed=0,
        status=Code.SUCCEEDED,
        failures=(failure(shard),),
        retry=((0,), 0.0),
    )
    assert ledger.shards.write(turn.hold, [step], lease=LEASE).held
    assert owners(job) == ["a", "a"]


# Who may be an owner


def test_owners_consume_from_the_queue_of_the_job(
    ledger: Ledger, beat: Beat, time: Time
) -> None:
    """And live."""
    beat("a", "b")
    ledger.upkeep.record_worker("mail", 1, "mail.dq", queues=["mail", "mail.dq"])
    assert [one.hostname for one in ledger.placements.serving([QUEUE])] == ["a", "b"]
    assert len(ledger.placements.serving(None)) == 3
    time.step(FRESH)
    beat("b")
    assert [one.hostname for one in ledger.placements.serving([QUEUE])] == ["b"]
