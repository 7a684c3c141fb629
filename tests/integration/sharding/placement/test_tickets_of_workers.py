"""Tickets go to workers that have open shards."""

from __future__ import annotations

from celery_sharding.ledger import Ledger
from tests.integration.sharding.conftest import Time
from tests.integration.sharding.placement.conftest import Beat, Placed
from tests.integration.sharding.placement.turns import (
    RESEND,
    claim,
    closed,
    summoned,
    take,
)


def test_tickets_go_to_workers_that_have_open_shards(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """One for each shard, and at most one more than slots; none to others."""
    beat("a", "b", "idle")
    job = placed(["a", "a", "a", "b"])
    assert summoned(ledger, job) == ["a.dq", "a.dq", "b.dq"]
    assert summoned(ledger, job) == []


def test_few_tickets_go_to_those_who_have_fewest(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """Nobody has two where another with shards has none."""
    beat("a", "b", "c", slots=4)
    job = placed(["a"] * 4 + ["b"] * 4 + ["c"] * 4, concurrency=3)
    assert summoned(ledger, job) == ["a.dq", "b.dq", "c.dq"]


def test_a_ticket_that_is_laid_down_goes_to_another_owner(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """It does not wait for a worker that has nothing left, nor come back to it."""
    beat("a", "b")
    job = placed(["a", "b", "b"], concurrency=1)
    assert summoned(ledger, job) == ["a.dq"]
    turn = take(ledger, job, "a")
    (shard,) = claim(ledger, turn, "a", most=10)
    closed(ledger, turn, shard)
    assert claim(ledger, turn, "a") == []
    assert ledger.tickets.set_idle(turn.hold)
    assert summoned(ledger, job) == ["b.dq"]


def test_shards_of_anybody_have_tickets_in_the_queue_of_the_job(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """As with placement by pull."""
    beat("a")
    job = placed([None, None, "a"])
    assert summoned(ledger, job) == [None, None, "a.dq"]


def test_a_ticket_for_a_worker_that_is_gone_is_sent_to_another_at_once(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """It lies in a queue that nobody reads."""
    beat("a", "b")
    job = placed(["a", "b"], concurrency=1)
    assert summoned(ledger, job) == ["a.dq"]
    ledger.upkeep.record_worker_end("a")
    assert summoned(ledger, job) == ["b.dq"]


def test_a_ticket_that_nobody_took_is_sent_again(
    ledger: Ledger, placed: Placed, beat: Beat, time: Time
) -> None:
    """And one that rests is not, nor any of a paused job; missing rows are made."""
    beat("a", slots=3)
    job = placed(["a", "a"])
    assert summoned(ledger, job) == ["a.dq", "a.dq"]
    assert summoned(ledger, job) == []
    time.step(RESEND + 1)
    turn = take(ledger, job, "a")
    assert ledger.tickets.set_idle(turn.hold, wake_in=RESEND)
    ledger.database._connected().execute(
        "delete from pecker_tickets where job = %s and ticket > 2", (job,)
    )
    assert summoned(ledger, job) == ["a.dq", "a.dq"]
    row = ledger.reading.jobs(open_only=True, most=1)[0]
    time.step(RESEND + 1)
    ledger.control.pause(row.task_id)
    beat("a", slots=3)
    assert summoned(ledger, job) == []
