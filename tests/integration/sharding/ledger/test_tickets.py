"""Tickets: held once, lost with the lease, no more of them than are of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Hold, Stage, Step, Turn
from tests.integration.sharding.shift import goes_on

LEASE = 15.0
RESEND = 10.0


def take(
    ledger: Ledger, job: int, ticket: int, seq: int, who: str = "a"
) -> Turn | None:
    """Take a ticket as the worker of that name."""
    return ledger.tickets.take(
        job, ticket, seq, holder=f"{who}:1:x", hostname=who, lease=LEASE
    )


def published(
    ledger: Ledger, job: int, slots: int | None = 100
) -> list[tuple[int, int]]:
    """Summon with the settings' own patience."""
    return ledger.tickets.to_publish(job, slots=slots, resend=RESEND)


def held(turn: Turn | None) -> Hold:
    """Return the hold of a ticket that was taken."""
    assert turn is not None
    return turn.hold


def alter(ledger: Ledger, job: int, what: str) -> None:
    """Change the job's row as another room of the ledger would."""
    ledger.database._connected().execute(
        f"update public.pecker_jobs set {what} where job = %s",  # noqa: S608
        (job,),
    )


def standing(ledger: Ledger, job: int) -> list[tuple[Any, ...]]:
    """Return (shard, status, deaths) of a job's shards."""
    return (
        ledger.database._connected()
        .execute(
            "select shard, status, deaths from public.pecker_shards where job = %s"
            " order by shard",
            (job,),
        )
        .fetchall()
    )


def test_one_copy_of_a_message_takes_the_ticket(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """The second, and each later, finds another number."""
    ready = planned(((10, 10),), args=("a.csv",), concurrency=4)
    assert published(ledger, ready.job) == [(1, 0), (2, 0)]
    turn = take(ledger, ready.job, 1, 0)
    assert turn is not None
    assert turn.hold == Hold(job=ready.job, ticket=1, seq=1, holder="a:1:x")
    assert (turn.task_id, turn.task) == (ready.task_id, "proj.import_rows")
    assert (turn.args, dict(turn.kwargs)) == (("a.csv",), {})
    assert (turn.concurrency, turn.stage) == (4, Stage.SHARDING)
    assert (turn.layers, turn.run) == (1, 1)
    assert turn.deadline_in is None
    for seq in (0, 1):
        assert take(ledger, ready.job, 1, seq, "b") is None
    assert take(ledger, ready.job, 9, 0) is None
    assert take(ledger, ready.job + 1, 1, 0) is None


@pytest.mark.parametrize(
    "what", ["paused = true", "stage = 'delivering'", "concurrency = 1"]
)
def test_a_job_that_wants_none_leaves_its_tickets_idle(
    ledger: Ledger, planned: Callable[..., Any], what: str
) -> None:
    """It is published again when the job needs it again, and then taken."""
    ready = planned(((10, 10),), concurrency=4)
    assert len(published(ledger, ready.job)) == 2
    alter(ledger, ready.job, what)
    assert take(ledger, ready.job, 2, 0) is None
    assert (2, 0) not in published(ledger, ready.job)
    alter(ledger, ready.job, "paused = false, stage = 'sharding', concurrency = 4")
    assert (2, 0) in published(ledger, ready.job)
    assert take(ledger, ready.job, 2, 0) is not None


def test_a_ticket_that_is_handed_on_is_the_next_ones(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Its message names the number of the hold before, which is over."""
    ready = planned(((10, 10),))
    hold = held(take(ledger, ready.job, 1, 0))
    assert len(ledger.shards.claim(hold, layer=0, most=2)) == 2
    assert ledger.tickets.release(hold)
    assert not ledger.tickets.release(hold)
    assert not ledger.tickets.set_idle(hold)
    assert not ledger.tickets.renew(hold, LEASE).held
    assert ledger.shards.claim(hold, layer=0, most=2) == []
    assert standing(ledger, ready.job) == [(0, 100, 0), (1, 100, 0)]
    step = Step(shard=0, cursor=1, ahead=1, done=1, failed=0)
    assert not ledger.shards.write(hold, [step], lease=LEASE).held
    later = held(take(ledger, ready.job, 1, hold.seq, "b"))
    assert later.seq == hold.seq + 1
    assert goes_on(ledger.tickets.renew(later, LEASE), later)
    assert not ledger.tickets.renew(hold, LEASE).held
    assert not ledger.shards.write(hold, [step], lease=LEASE).held
    assert ledger.shards.claim(hold, layer=0, most=2) == []
    assert not ledger.tickets.release(hold)
    assert ledger.tickets.renew(later, LEASE).held


def test_who_lets_a_ticket_go_frees_its_own_shards(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Not those of another ticket, though its hold has the same number."""
    ready = planned(((10, 10),))
    one = held(take(ledger, ready.job, 1, 0))
    two = held(take(ledger, ready.job, 2, 0, "b"))
    assert one.seq == two.seq
    for hold in (one, two):
        assert len(ledger.shards.claim(hold, layer=0, most=1)) == 1
    assert ledger.tickets.set_idle(one)
    assert standing(ledger, ready.job) == [(0, 100, 0), (1, 202, 0)]


def test_a_ticket_that_rests_is_not_summoned_before_its_time(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """A gate says when to ask again."""
    ready = planned(((10,),), concurrency=1)
    hold = held(take(ledger, ready.job, 1, 0))
    assert ledger.tickets.set_idle(hold, 5.0)
    assert published(ledger, ready.job) == []
    time.step(5.0)
    assert published(ledger, ready.job) == [(1, hold.seq)]


def test_no_more_tickets_are_out_than_are_of_use(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """Not more than the concurrency, than workers can run, than shards are ready."""
    few = planned(((1,) * 3, (1,) * 9), concurrency=8)
    assert [ticket for ticket, _ in published(ledger, few.job)] == [1, 2, 3]
    assert published(ledger, few.job) == []
    many = planned(((1,) * 20,), concurrency=8)
    assert len(published(ledger, many.job, slots=2)) == 3
    assert published(ledger, many.job, slots=2) == []
    held(take(ledger, many.job, 1, 0))
    assert published(ledger, many.job, slots=2) == []
    assert [ticket for ticket, _ in published(ledger, many.job, slots=None)] == [
        4,
        5,
        6,
        7,
        8,
    ]
    time.step(RESEND)
    again = published(ledger, many.job)
    assert [ticket for ticket, _ in again] == [2, 3, 4, 5, 6, 7, 8]
    assert published(ledger, many.job) == []


def test_tickets_are_made_when_the_concurrency_is_raised(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """They have the lowest numbers that are free."""
    ready = planned(((1,) * 20,), concurrency=2)
    assert [ticket for ticket, _ in published(ledger, ready.job)] == [1, 2]
    alter(ledger, ready.job, "concurrency = 5")
    assert published(ledger, ready.job) == [(3, 0), (4, 0), (5, 0)]
    assert take(ledger, ready.job, 5, 0) is not None


def test_tickets_above_a_concurrency_that_was_lowered_count_until_they_end(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Else more shards would run than it allows."""
    ready = planned(((1,) * 20,), concurrency=4)
    assert len(published(ledger, ready.job)) == 4
    last = [held(take(ledger, ready.job, ticket, 0)) for ticket in (3, 4)]
    alter(ledger, ready.job, "concurrency = 2")
    for ticket in (1, 2):
        ledger.tickets.set_idle(held(take(ledger, ready.job, ticket, 0)))
    assert published(ledger, ready.job) == []
    assert ledger.tickets.set_idle(last[0])
    assert published(ledger, ready.job) == [(1, 1)]


def test_shards_that_wait_for_their_time_are_no_use(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """A ticket for them is summoned when it has come."""
    ready = planned(((2,),), concurrency=4)
    hold = held(take(ledger, ready.job, 1, 0))
    ledger.shards.claim(hold, layer=0, most=1)
    step = Step(
        shard=0,
        cursor=2,
        ahead=2,
        done=1,
        failed=0,
        status=Code.SUCCEEDED,
        retry=((1,), 30.0),
    )
    word = ledger.shards.write(hold, [step], lease=LEASE)
    assert word.layer_open == 1
    ledger.tickets.set_idle(hold)
    assert published(ledger, ready.job) == []
    time.step(30.0)
    assert len(published(ledger, ready.job)) == 1


def test_a_hold_that_is_not_renewed_is_lost(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """Its shards may be claimed again; each of them counts a death."""
    ready = planned(((10, 10, 10),))
    hold = held(take(ledger, ready.job, 1, 0))
    ledger.shards.claim(hold, layer=0, most=2)
    time.step(LEASE - 1)
    assert ledger.tickets.renew(hold, LEASE).held
    time.step(LEASE - 1)
    assert ledger.tickets.end_expired() == []
    time.step(1)
    assert ledger.tickets.end_expired() == [ready.job]
    assert ledger.tickets.end_expired() == []
    assert standing(ledger, ready.job) == [(0, 100, 1), (1, 100, 1), (2, 100, 0)]
    assert not ledger.tickets.renew(hold, LEASE).held
    step = Step(shard=0, cursor=10, ahead=10, done=10, failed=0, status=Code.SUCCEEDED)
    assert not ledger.shards.write(hold, [step], lease=LEASE).held
    assert take(ledger, ready.job, 1, hold.seq) is None
    assert take(ledger, ready.job, 1, hold.seq + 1) is not None


def test_a_death_is_that_of_the_shard_in_hand_where_it_is_known(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Others are claimed together again; all of its own items are suspects."""
    ready = planned(((10, 10, 10),))
    hold = held(take(ledger, ready.job, 1, 0))
    ledger.shards.claim(hold, layer=0, most=3)
    freed = ledger.tickets.end_holds_of(hold.holder, in_hand=(ready.job, 1))
    assert freed == [ready.job]
    assert standing(ledger, ready.job) == [(0, 100, 0), (1, 100, 1), (2, 100, 0)]
    hold = held(take(ledger, ready.job, 1, hold.seq + 1))
    claimed = ledger.shards.claim(hold, layer=0, most=3)
    assert [one.shard for one in claimed] == [0, 2]
    (suspect,) = ledger.shards.claim(hold, layer=0, most=3)
    assert suspect.shard == 1
    assert suspect.ahead > suspect.cursor


def test_lapses_of_one_job_leave_others_alone(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """And no more are ended at once than is asked."""
    one, two = planned(), planned()
    for job in (one.job, two.job):
        for ticket, seq in published(ledger, job):
            held(take(ledger, job, ticket, seq))
    time.step(LEASE)
    assert ledger.tickets.end_expired(two.job) == [two.job]
    assert ledger.tickets.end_expired(most=1) == [one.job]
    assert ledger.tickets.end_expired(most=1) == [one.job]
    assert ledger.tickets.end_expired() == []


def test_holds_of_a_process_that_is_known_dead_end_at_once(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Names that only begin alike are others': `%` and `_` are letters."""
    ready = planned(((1,) * 4,))
    names = ["a@h:12:x", "a@h:123:y", "a_h:12:z", "%"]
    for ticket, name in enumerate(names, 1):
        taken = ledger.tickets.take(
            ready.job, ticket, 0, holder=name, hostname="h", lease=LEASE
        )
        ledger.shards.claim(held(taken), layer=0, most=1)
    assert ledger.tickets.end_holds_of("a@h:12:") == [ready.job]
    assert [deaths for _, _, deaths in standing(ledger, ready.job)] == [1, 0, 0, 0]
    assert ledger.tickets.end_holds_of("a@h:12:") == []
    assert take(ledger, ready.job, 1, 1) is None
    assert ledger.tickets.end_all_holds(ready.job) == [ready.job]
    assert [deaths for _, _, deaths in standing(ledger, ready.job)] == [1, 0, 0, 0]
    assert {status for _, status, _ in standing(ledger, ready.job)} == {100}
