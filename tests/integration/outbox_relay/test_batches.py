"""Ids in batches: each in one, whole, and never longer than a hold."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.outbox.relay.batches import Batches, RelayBatch, RelayTally
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.rows import Rows
from tests.integration.outbox_relay.conftest import Relays
from tests.integration.outbox_relay.rows import column, record

HELD = "select unnest(ids) from pecker_outbox_batches"
LEFT = "select id from pecker_outbox order by id"


def claimed(relay: Batches, **options: Any) -> RelayBatch:
    """Return a batch that must be there."""
    claim = relay.claim(new_id(), **{"above": 0, **options})
    assert claim.batch is not None
    return claim.batch


def test_many_claimers_take_each_id_once(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """A claim whose snapshot is older than a rival's commit takes nothing."""
    record(outbox, 4_000)
    start = threading.Barrier(8)

    def claim_all(_: int) -> list[int]:
        relay = relays()
        mine: list[int] = []
        start.wait()
        while len(mine) <= 4_000:
            claim = relay.claim(new_id(), above=0, most=20)
            if claim.batch is not None:
                mine += claim.batch.ids
            elif claim.had_turn:
                break
        return mine

    with ThreadPoolExecutor(8) as pool:
        found = [id_ for ids in pool.map(claim_all, range(8)) for id_ in ids]
    assert sorted(found) == column(outbox, LEFT)
    assert sorted(column(outbox, HELD)) == column(outbox, LEFT)


def test_a_claim_waits_for_no_rival(
    dsn: str, relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """A rival that stands still in the middle of its claim costs nobody time."""
    record(outbox, 3)
    with psycopg.connect(dsn) as rival:
        rival.execute("select from pecker_outbox_turn for update")
        claim = relays().claim(new_id(), above=0)
    assert claim.batch is None
    assert not claim.had_turn


def test_a_batch_holds_messages_of_so_many_bytes(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """One that is larger than a batch may be goes by itself."""
    small = record(outbox, 2, body=b"x" * 100)
    [large] = record(outbox, 1, body=b"x" * 100_000)
    more = record(outbox, 1, body=b"x" * 100)
    relay = relays()
    assert [claimed(relay, size=10_000).ids for _ in range(3)] == [small, [large], more]


def test_what_is_deferred_comes_when_it_is_due(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """By the database's clock."""
    record(outbox, 1, delay=3_600)
    due = record(outbox, 1, delay=-1)
    relay = relays()
    assert claimed(relay).ids == due
    assert relay.claim(new_id(), above=0).batch is None


def test_a_closed_batch_is_gone_with_its_messages(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """What was parked meanwhile stays."""
    first, second, third = record(outbox, 3)
    relay = relays()
    batch = claimed(relay, most=2)
    assert [row.id for row in relay.read(batch)] == [first, second]
    outbox.execute("update pecker_outbox set parked_at = now() where id = %s", [second])
    assert [row.id for row in relay.read(batch)] == [first]
    assert relay.close(batch) == 1
    assert column(outbox, LEFT) == [second, third]
    assert column(outbox, HELD) == []


def test_a_batch_is_taken_over_whole_once_its_hold_is_over(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """Under its own token; the relay before has lost it."""
    record(outbox, 5)
    dead, alive = relays(hold=0.0), relays()
    batch = claimed(dead)
    taken = alive.reclaim()
    assert taken is not None
    assert (taken.token, taken.ids, taken.tries) == (batch.token, batch.ids, 1)
    assert taken.epoch > batch.epoch
    assert alive.reclaim() is None
    for late in (dead.close, dead.part):
        with pytest.raises(LeaseLost, match="taken over by another relay"):
            late(batch)
    dead.release_for_retry(batch, wait=0.0, tries=9)
    assert alive.reclaim() is None, "who has lost a batch cannot give it back"
    assert alive.close(taken) == 5


def test_a_clock_that_steps_back_holds_no_batch_longer(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """A dead relay's batch would else wait for as long as the clock has stepped."""
    record(outbox, 1)
    relay = relays(hold=0.0)
    batch = claimed(relay)
    outbox.execute(
        "update pecker_outbox_batches set held_until = held_until + interval '1 hour'"
    )
    assert relay.reclaim() is None
    assert relay.database.change("shorten_outbox_holds") == 1
    taken = relay.reclaim()
    assert taken is not None
    assert taken.ids == batch.ids
    assert relays().database.change("shorten_outbox_holds") == 0, (
        "a hold that is right stays"
    )


def test_a_batch_is_parted(relays: Relays, outbox: psycopg.Connection[Any]) -> None:
    """Sent, parked, set apart, left: each id is in one of them."""
    ids = record(outbox, 8)
    relay = relays()
    batch = claimed(relay)
    rest, apart = relay.part(
        batch,
        sent=ids[:2],
        parked={ids[2]: "no such queue"},
        apart=ids[3:5],
        token=new_id(),
    )
    assert rest is not None
    assert apart is not None
    assert (rest.ids, rest.alone, rest.token) == (ids[5:], False, batch.token)
    assert (apart.ids, apart.alone) == (ids[3:5], True)
    assert apart.token != batch.token
    assert column(outbox, LEFT) == ids[2:]
    assert column(
        outbox, "select last_error from pecker_outbox where parked_at is not null"
    ) == ["no such queue"]
    assert relay.claim(new_id(), above=0).batch is None, "what is parked is not due"
    assert relay.close(rest) == 3
    assert relay.part(apart, sent=apart.ids) == (None, None)
    assert column(outbox, HELD) == []
    assert column(outbox, LEFT) == [ids[2]]


def test_a_batch_that_was_given_back_is_anybodys(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """After the wait."""
    record(outbox, 1)
    relay, other = relays(), relays()
    batch = claimed(relay)
    relay.release_for_retry(batch, wait=3_600.0, tries=9)
    assert other.reclaim() is None
    relay.release_for_retry(batch, wait=0.0, tries=9)
    assert other.reclaim() is not None


def test_a_batch_whose_claim_had_no_reply_is_found(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """By the relay itself, without waiting for the hold."""
    record(outbox, 2)
    relay = relays()
    batch = claimed(relay)
    assert relay.reclaim() is None
    assert relays().reclaim(mine=True) is None
    found = relay.reclaim(mine=True)
    assert found is not None
    assert (found.ids, found.token) == (batch.ids, batch.token)


def test_relays_know_how_many_there_are(
    relays: Relays, outbox: psycopg.Connection[Any]
) -> None:
    """Those that were seen lately."""
    first, second = relays(), relays()
    place: dict[str, Any] = {"host": "h", "pid": 1}
    assert first.announce(**place, tally=RelayTally()) == 0
    assert second.announce(**place, tally=RelayTally(broker="away")) == 1
    assert (
        first.announce(**place, tally=RelayTally(sent=7, rates={"app.work": 1.5})) == 1
    )
    outbox.execute("update pecker_outbox_relays set seen_at = now() - interval '1 min'")
    assert first.announce(**place, tally=RelayTally()) == 0


def test_the_messages_of_a_batch_need_no_temporary_files(
    dsn: str, outbox: psycopg.Connection[Any]
) -> None:
    """A server may allow none: nothing but ids is sorted, and that by the relay."""
    name = sql.Identifier(outbox.info.dbname)
    for setting in ("work_mem = '64kB'", "temp_file_limit = 0"):
        change = sql.SQL("alter database {} set ").format(name)
        outbox.execute(change + sql.SQL(setting))
    ids = record(outbox, 200, body=b"x" * 1_500)
    with closing(Database(dsn, schema="public", timeout=20)) as database:
        relay = Batches(database, new_id(), hold=30.0)
        assert [row.id for row in relay.read(claimed(relay))] == ids
        outbox.execute("update pecker_outbox set mode = 1, epoch = 1, due_at = now()")
        runs = Rows(database, Holds(first=1.0, most=1.0))
        assert [row.id for row in runs.read([(id_, 1) for id_ in ids])] == ids
