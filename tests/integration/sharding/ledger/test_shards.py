"""Shards: claimed by one, written to by who holds them, each item counted once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from celery_sharding.codec import decode
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Failure, Hold, HoldReply, Shard, Stage, Step
from tests.integration.sharding.shift import goes_on

LEASE = 15.0


def holding(ledger: Ledger, job: int, ticket: int = 1, who: str = "a") -> Hold:
    """Hold a ticket of a job, as the worker of that name."""
    ((seq,),) = rows(
        ledger,
        "select seq from pecker_tickets where job = %s and ticket = %s",
        job,
        ticket,
    )
    turn = ledger.tickets.take(
        job, ticket, seq, holder=f"{who}:1:x", hostname=who, lease=LEASE
    )
    assert turn is not None
    return turn.hold


def rows(ledger: Ledger, statement: str, *params: object) -> list[tuple[Any, ...]]:
    """Return what the tables say."""
    found = ledger.database._connected().execute(statement, params)
    return found.fetchall() if found.description else []


def claim(ledger: Ledger, hold: Hold, most: int = 1, **given: Any) -> list[Shard]:
    """Claim shards of the first layer."""
    return ledger.shards.claim(hold, **{"layer": 0, "most": most, **given})


def write(ledger: Ledger, hold: Hold, *steps: Step) -> HoldReply:
    """Write with the usual lease."""
    return ledger.shards.write(hold, steps, lease=LEASE)


def done(shard: Shard, **given: Any) -> Step:
    """Return the closing step of a shard all of whose items succeeded."""
    count = shard.count
    usual = {"cursor": count, "ahead": count, "done": count, "failed": 0}
    return Step(shard=shard.shard, **{**usual, "status": Code.SUCCEEDED, **given})


def failure(shard: Shard, index: int, **given: Any) -> Failure:
    """Return the failure of one of a shard's items."""
    usual: dict[str, Any] = {
        "origin": shard.origin,
        "place": shard.place(index),
        "shard": shard.shard,
        "layer": shard.layer,
        "code": Code.FAILED,
        "attempt": shard.attempt + 1,
        "type": "ValueError",
        "message": "no",
    }
    return Failure(**{**usual, **given})


def layer_of(ledger: Ledger, job: int, layer: int = 0) -> tuple[Any, ...]:
    """Return (total, shards, open, done, failed)."""
    ((*found,),) = rows(
        ledger,
        "select total, shards, open, done, failed from pecker_layers"
        " where job = %s and layer = %s",
        job,
        layer,
    )
    return tuple(found)


def test_shards_are_claimed_in_order_and_once(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """The first runs, the others wait for it; the next layer's are not there yet."""
    ready = planned(((3, 4, 5), (6,)))
    one, two = holding(ledger, ready.job), holding(ledger, ready.job, 2, "b")
    assert claim(ledger, one, 2, layer=1) == []
    mine = claim(ledger, one, 2)
    assert [(s.shard, s.origin, s.count, s.cursor, s.ahead) for s in mine] == [
        (0, 0, 3, 0, 0),
        (1, 1, 4, 0, 0),
    ]
    assert [s.shard for s in claim(ledger, two, 2)] == [2]
    assert claim(ledger, one, 2) == []
    assert rows(
        ledger,
        "select status, ticket, epoch from pecker_shards where job = %s order by shard",
        ready.job,
    ) == [(202, 1, 1), (201, 1, 1), (202, 2, 1), (100, None, 0)]
    bodies = ledger.shards.items(ready.job, [0, 1])
    assert {shard: decode(body) for shard, body in bodies.items()} == {
        0: [0, 1, 2],
        1: [3, 4, 5, 6],
    }


def test_a_claim_goes_on_after_the_last_and_then_at_the_first(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """What was given back in front is found when there is nothing behind."""
    ready = planned(((1,) * 4,))
    hold = holding(ledger, ready.job)
    assert [s.shard for s in claim(ledger, hold, 2)] == [0, 1]
    given = Step(shard=0, cursor=0, ahead=0, done=0, failed=0, status=Code.WAITING)
    assert write(ledger, hold, given).held
    assert [s.shard for s in claim(ledger, hold, 9, after=1)] == [2, 3]
    assert [s.shard for s in claim(ledger, hold, 9, after=3)] == [0]


@pytest.mark.parametrize(
    "what",
    ["paused = true", "stage = 'delivering'", "concurrency = 1", "layer = 1"],
)
def test_a_job_that_wants_no_more_is_claimed_no_more(
    ledger: Ledger, planned: Callable[..., Any], what: str
) -> None:
    """And who writes to it is told."""
    ready = planned(((1,) * 4,))
    hold = holding(ledger, ready.job, 2)
    (mine,) = claim(ledger, hold)
    rows(ledger, f"update pecker_jobs set {what} where job = %s", ready.job)  # noqa: S608
    assert claim(ledger, hold) == []
    word = write(ledger, hold, done(mine))
    assert word.held
    assert not goes_on(word, hold)


def test_a_shard_that_was_dealt_to_a_worker_is_claimed_by_it(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Others pass it over."""
    ready = planned(((1,) * 3,))
    rows(ledger, "update pecker_shards set owner = 'b' where shard = 0")
    one, two = holding(ledger, ready.job), holding(ledger, ready.job, 2, "b")
    assert [s.shard for s in claim(ledger, one, 9, hostname="a")] == [1, 2]
    assert [s.shard for s in claim(ledger, two, 9, hostname="b")] == [0]


def test_a_shard_over_which_a_process_died_comes_alone(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """So that it is known to be the one if another dies; its window is kept."""
    ready = planned(((8,) * 4,))
    hold = holding(ledger, ready.job)
    claim(ledger, hold, 2)
    write(ledger, hold, Step(shard=0, cursor=3, ahead=5, done=3, failed=0))
    ledger.tickets.end_holds_of("a:")
    hold = holding(ledger, ready.job)
    (suspect,) = claim(ledger, hold, 9)
    assert (suspect.shard, suspect.deaths) == (0, 1)
    assert (suspect.cursor, suspect.ahead, suspect.done) == (3, 5, 3)
    (waited,) = claim(ledger, hold, 9)
    assert (waited.shard, waited.deaths, waited.ahead) == (1, 1, 0)
    assert [s.shard for s in claim(ledger, hold, 9)] == [2, 3]


def test_a_suspect_between_others_waits_for_its_turn(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """A batch that began with another shard has none; deaths end with progress."""
    ready = planned(((8,) * 3,))
    rows(ledger, "update pecker_shards set deaths = 2 where shard = 1")
    hold = holding(ledger, ready.job)
    assert [s.shard for s in claim(ledger, hold, 9)] == [0, 2]
    (suspect,) = claim(ledger, hold, 9, after=2)
    assert (suspect.shard, suspect.deaths, suspect.ahead) == (1, 2, 0)
    write(ledger, hold, Step(shard=1, cursor=0, ahead=4, done=0, failed=0))
    deaths = "select deaths from pecker_shards where shard = 1"
    assert rows(ledger, deaths) == [(2,)]
    write(ledger, hold, Step(shard=1, cursor=4, ahead=8, done=4, failed=0))
    assert rows(ledger, deaths) == [(0,)]


def test_a_shard_is_closed_with_all_that_belongs_to_it(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Counts, results and errors are written at once, and the layer's counter tells."""
    ready = planned(((4, 2),))
    hold = holding(ledger, ready.job)
    first, second = claim(ledger, hold, 2)
    word = write(
        ledger,
        hold,
        Step(
            shard=0,
            cursor=2,
            ahead=4,
            done=1,
            failed=1,
            results=b"r0",
            failures=(failure(first, 1, message="a\0b\ud800", item=b"j7"),),
        ),
    )
    assert (word.held, word.stage, word.layer_open) == (True, Stage.SHARDING, 2)
    assert goes_on(word, hold)
    assert layer_of(ledger, ready.job) == (6, 2, 2, 0, 0)
    word = write(
        ledger,
        hold,
        Step(
            shard=0,
            cursor=4,
            ahead=4,
            done=3,
            failed=1,
            status=Code.SUCCEEDED,
            results=b"r1",
            result=b"end",
        ),
        Step(shard=1, cursor=0, ahead=2, done=0, failed=0),
    )
    assert word.layer_open == 1
    assert layer_of(ledger, ready.job) == (6, 2, 1, 3, 1)
    word = write(ledger, hold, done(second))
    assert (word.layer_open, word.lost) == (0, ())
    assert layer_of(ledger, ready.job) == (6, 2, 0, 5, 1)
    assert rows(
        ledger, "select shard, body from pecker_results order by shard, at"
    ) == [(0, b"end"), (0, b"r0"), (0, b"r1")]
    assert rows(
        ledger,
        "select origin, place, code, attempt, type, message, item, worker"
        " from pecker_item_errors",
    ) == [(0, 1, 302, 1, "ValueError", "a\\0b\\ud800", b"j7", "a")]


def test_results_after_the_last_item_are_kept(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """The cursor stands as it did at the last flush when the shard is closed."""
    ready = planned(((2,),))
    hold = holding(ledger, ready.job)
    (mine,) = claim(ledger, hold)
    write(ledger, hold, done(mine, status=Code.RUNNING, results=b"flush"))
    write(ledger, hold, done(mine, status=Code.WAITING, results=b"back"))
    claim(ledger, hold)
    write(ledger, hold, done(mine, results=b"end"))
    found = rows(ledger, "select body from pecker_results order by at")
    assert found == [(b"flush",), (b"back",), (b"end",)]


def test_a_write_that_is_repeated_counts_once(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Its answer was lost, so its writer does not know that it was written."""
    ready = planned(((4, 2),))
    hold = holding(ledger, ready.job)
    first, second = claim(ledger, hold, 2)
    steps = (
        done(
            first,
            done=3,
            failed=1,
            results=b"r",
            result=b"end",
            failures=(failure(first, 1),),
        ),
        Step(
            shard=1,
            cursor=1,
            ahead=2,
            done=0,
            failed=0,
            results=b"s",
            failures=(failure(second, 0),),
        ),
    )
    for _ in range(2):
        word = write(ledger, hold, *steps)
        assert (word.held, word.layer_open, word.lost) == (True, 1, ())
    close = done(second, done=1, retry=((0,), 0.0))
    for _ in range(2):
        word = write(ledger, hold, close)
        assert (word.layer_open, word.lost) == (1, ())
    assert layer_of(ledger, ready.job) == (6, 3, 1, 4, 1)
    (again,) = claim(ledger, hold)
    back = Step(shard=2, cursor=0, ahead=0, done=0, failed=0, status=Code.WAITING)
    for _ in range(2):
        assert write(ledger, hold, back).lost == ()
    assert write(ledger, hold, done(again)).lost == (2,)
    assert rows(ledger, "select count(*) from pecker_results") == [(3,)]


def test_items_to_be_tried_again_are_a_shard_of_their_own(
    ledger: Ledger, planned: Callable[..., Any], time: Any
) -> None:
    """Of the same layer, which stays open; what is made good is no error any more."""
    ready = planned(((4,), (1, 1)))
    hold = holding(ledger, ready.job)
    (mine,) = claim(ledger, hold)
    word = write(
        ledger,
        hold,
        done(
            mine,
            done=2,
            failures=(failure(mine, 1), failure(mine, 3)),
            retry=((1, 3), 30.0),
        ),
    )
    assert word.layer_open == 1
    assert layer_of(ledger, ready.job) == (4, 2, 1, 2, 0)
    assert claim(ledger, hold, 9) == []
    time.step(10)
    ledger.tickets.renew(hold, LEASE)
    time.step(14)
    ledger.tickets.renew(hold, LEASE)
    time.step(6)
    (again,) = claim(ledger, hold, 9)
    assert (again.shard, again.layer, again.origin) == (3, 0, 0)
    assert (again.picks, again.count, again.attempt) == ([1, 3], 2, 1)
    assert [again.place(index) for index in (0, 1)] == [1, 3]
    word = write(
        ledger,
        hold,
        done(
            again,
            done=1,
            failed=1,
            mended=((0, 1),),
            failures=(failure(again, 1, message="still"),),
        ),
    )
    assert word.layer_open == 0
    assert layer_of(ledger, ready.job) == (4, 2, 0, 3, 1)
    assert rows(
        ledger, "select place, shard, attempt, message from pecker_item_errors"
    ) == [(3, 3, 2, "still")]


def test_who_goes_on_after_a_death_learns_what_failed_before(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Else an item that was to be tried again would be in no count."""
    ready = planned(((4, 4),))
    hold = holding(ledger, ready.job)
    (mine,) = claim(ledger, hold)
    flush = Step(
        shard=0,
        cursor=2,
        ahead=4,
        done=1,
        failed=0,
        failures=(failure(mine, 1), failure(mine, 3, code=Code.DIED)),
    )
    write(ledger, hold, flush)
    ledger.tickets.end_holds_of("a:")
    hold = holding(ledger, ready.job)
    (mine,) = claim(ledger, hold)
    assert (mine.cursor, mine.done, mine.failed) == (2, 1, 0)
    assert ledger.shards.pending(ready.job, [mine]) == {
        0: [(1, Code.FAILED), (3, Code.DIED)]
    }


def test_a_part_that_nobody_counted_says_what_it_had(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Layer and job have that many items fewer, once."""
    ready = planned(((10, 5),))
    hold = holding(ledger, ready.job)
    mine = claim(ledger, hold)[0]
    step = done(mine, cursor=7, ahead=7, done=7, count=7)
    for _ in range(2):
        assert write(ledger, hold, step).held
    assert layer_of(ledger, ready.job) == (12, 2, 1, 7, 0)
    assert rows(ledger, "select total from pecker_jobs") == [(12,)]
    assert rows(ledger, "select lo, hi from pecker_shards where shard = 0") == [(0, 7)]


def test_what_is_no_longer_the_holders_is_not_written_and_the_rest_is(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """The writer hears which shards it has lost."""
    ready = planned(((2, 2),))
    hold = holding(ledger, ready.job)
    first, second = claim(ledger, hold, 2)
    rows(ledger, "update pecker_shards set status = 100, ticket = null where shard = 0")
    word = write(
        ledger,
        hold,
        done(first, results=b"no", failures=(failure(first, 0),), retry=((0,), 0.0)),
        done(second, results=b"yes"),
    )
    assert (word.held, word.lost, word.layer_open) == (True, (0,), 1)
    assert rows(ledger, "select body from pecker_results") == [(b"yes",)]
    assert rows(ledger, "select count(*) from pecker_item_errors") == [(0,)]
    assert layer_of(ledger, ready.job) == (4, 2, 1, 2, 0)


def test_a_shard_of_another_ticket_is_not_written(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Though its hold has the same number."""
    ready = planned(((2, 2),))
    one, two = holding(ledger, ready.job), holding(ledger, ready.job, 2, "b")
    assert one.seq == two.seq
    claim(ledger, one)
    (theirs,) = claim(ledger, two)
    assert write(ledger, one, done(theirs)).lost == (theirs.shard,)
    assert write(ledger, two, done(theirs)).lost == ()


def test_results_that_were_stored_at_a_cursor_stay(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Who goes on from there after a death has none of them, and writes there too."""
    ready = planned(((4,),))
    hold = holding(ledger, ready.job)
    claim(ledger, hold)
    flush = Step(shard=0, cursor=2, ahead=4, done=2, failed=0, results=b"two")
    assert write(ledger, hold, flush).held
    ledger.tickets.end_holds_of("a:")
    hold = holding(ledger, ready.job)
    claim(ledger, hold)
    assert write(ledger, hold, replace(flush, results=b"none")).held
    assert rows(ledger, "select body from pecker_results") == [(b"two",)]


def test_two_steps_of_one_shard_are_refused(
    ledger: Ledger, planned: Callable[..., Any]
) -> None:
    """Which of them came last the statement would not know."""
    ready = planned(((2,),))
    hold = holding(ledger, ready.job)
    (mine,) = claim(ledger, hold)
    with pytest.raises(ValueError, match="one step for each shard"):
        write(ledger, hold, done(mine), done(mine))
