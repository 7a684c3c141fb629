"""What the ledger says of shards that belong to workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_sharding.ledger import Ledger
from celery_sharding.ledger.upkeep import FRESH
from celery_sharding.model import Code, Failure, Shard, Step, Turn
from tests.integration.sharding.conftest import LEASE, Time
from tests.integration.sharding.placement.conftest import Owners, Placed

RESEND = 10.0
QUEUE = "imports"
Beat = Callable[..., None]


@pytest.fixture
def beat(ledger: Ledger) -> Beat:
    """Give a function that makes workers be seen, with so many slots each."""

    def seen(*hostnames: str, slots: int = 1) -> None:
        for one in hostnames:
            ledger.upkeep.seen(one, slots, f"{one}.dq", queues=[QUEUE, f"{one}.dq"])

    return seen


def summoned(ledger: Ledger, job: int) -> list[str | None]:
    """Return where tickets are sent to."""
    told = ledger.placing.summon(job, slots=ledger.upkeep.slots(), resend=RESEND)
    return sorted((one.queue for one in told), key=str)


def take(ledger: Ledger, job: int, hostname: str) -> Turn:
    """Return the turn of a worker that takes what was sent to it."""
    ((ticket, seq),) = ledger.database._connected().execute(
        "select ticket, seq from pecker_tickets where job = %s and hostname = %s"
        " and state = 'sent' order by ticket limit 1",
        (job, hostname),
    )
    turn = ledger.tickets.take(
        job, ticket, seq, holder=f"{hostname}:1:x", hostname=hostname, lease=LEASE
    )
    assert turn is not None
    return turn


def claim(ledger: Ledger, turn: Turn, hostname: str, most: int = 1) -> list[Shard]:
    """Return what that worker gets."""
    return ledger.shards.claim(turn.hold, layer=0, most=most, hostname=hostname)


def closed(ledger: Ledger, turn: Turn, shard: Shard) -> None:
    """The shard has ended well."""
    step = Step(
        shard=shard.shard, cursor=1, ahead=1, done=1, failed=0, status=Code.SUCCEEDED
    )
    assert ledger.shards.write(turn.hold, [step], lease=LEASE).held


# Tickets


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
    assert ledger.tickets.rest(turn.hold)
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
    ledger.upkeep.gone("a")
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
    assert ledger.tickets.rest(turn.hold, wake_in=RESEND)
    ledger.database._connected().execute(
        "delete from pecker_tickets where job = %s and ticket > 2", (job,)
    )
    assert summoned(ledger, job) == ["a.dq", "a.dq"]
    row = ledger.reading.jobs(open_only=True, most=1)[0]
    time.step(RESEND + 1)
    ledger.control.pause(row.task_id)
    beat("a", slots=3)
    assert summoned(ledger, job) == []


# Orphans


def test_all_orphans_are_dealt_at_once_those_that_run_too(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """Dealt one by one, all might go to the same worker."""
    beat("a", "b", "c")
    job = placed(["a", "b", "a", "c", "a"])
    summoned(ledger, job)
    turn = take(ledger, job, "a")
    assert [one.shard for one in claim(ledger, turn, "a", most=2)] == [0, 2]
    assert ledger.placing.orphans() == {}
    ledger.upkeep.gone("a")
    assert ledger.placing.orphans() == {job: [0, 2, 4]}


def test_who_holds_an_orphan_may_end_it(
    ledger: Ledger, placed: Placed, beat: Beat, owners: Owners
) -> None:
    """It was dealt to another for its next claim: there is none."""
    beat("a", "b")
    job = placed(["a", "b"])
    summoned(ledger, job)
    turn = take(ledger, job, "a")
    (shard,) = claim(ledger, turn, "a")
    assert ledger.placing.deal(job, [(shard.shard, "b")]) == 1
    closed(ledger, turn, shard)
    assert ledger.placing.deal(job, [(shard.shard, "a")]) == 0
    assert owners(job) == ["b", "b"]


def test_silence_counts_only_where_another_was_heard(
    ledger: Ledger, placed: Placed, beat: Beat, time: Time
) -> None:
    """After PostgreSQL was away all seem dead but who speaks first."""
    beat("a", "b")
    job = placed(["a", "b"])
    time.step(10 * FRESH)
    assert ledger.placing.orphans() == {}
    beat("a")
    assert ledger.placing.orphans() == {}
    time.step(FRESH / 3)
    beat("a")
    beat("b")
    for _ in range(4):
        time.step(FRESH / 3)
        beat("a")
    assert ledger.placing.orphans() == {job: [1]}


def test_who_has_no_queue_of_its_own_any_more_is_no_owner(
    ledger: Ledger, placed: Placed, beat: Beat
) -> None:
    """No ticket would reach it."""
    beat("a")
    job = placed(["a"])
    ledger.upkeep.seen("a", 1, None, queues=[QUEUE])
    assert ledger.placing.orphans() == {job: [0]}


def test_what_a_worker_cannot_run_is_for_any(
    ledger: Ledger, placed: Placed, beat: Beat, owners: Owners
) -> None:
    """All of that job's, and no other's."""
    beat("a", "b")
    job, other = placed(["a", "b", "a"]), placed(["a"])
    assert ledger.placing.disown(job, "a") == 2
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
        again=((0,), 0.0),
    )
    assert ledger.shards.write(turn.hold, [step], lease=LEASE).held
    assert owners(job) == ["a", "a"]


def failure(shard: Shard) -> Failure:
    """Return what is written of its item."""
    return Failure(
        origin=shard.origin,
        place=0,
        shard=shard.shard,
        layer=0,
        code=Code.FAILED,
        attempt=1,
        type="ValueError",
        message="bad row",
    )


# Who may be an owner


def test_owners_consume_from_the_queue_of_the_job(
    ledger: Ledger, beat: Beat, time: Time
) -> None:
    """And live."""
    beat("a", "b")
    ledger.upkeep.seen("mail", 1, "mail.dq", queues=["mail", "mail.dq"])
    assert [one.hostname for one in ledger.placing.serving([QUEUE])] == ["a", "b"]
    assert len(ledger.placing.serving(None)) == 3
    time.step(FRESH)
    beat("b")
    assert [one.hostname for one in ledger.placing.serving([QUEUE])] == ["b"]
