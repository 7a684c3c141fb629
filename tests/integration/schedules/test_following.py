"""Replicas follow stored schedules: each edit, whatever the order of commits."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.schedules.engine import service, stored_sync
from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.integration.schedules.replicas import after, due, missed
from tests.integration.schedules.stored import edit, follower, following_of, store

DAY = 86_400.0


def slots(pecker: ManualPecker) -> list[tuple[str, Any]]:
    """Return (name, slot) of everything sent."""
    return [(one.name, one.header["due_at"]) for one in pecker.publisher.sent]


def test_a_stored_schedule_runs_one_period_after_it_was_stored(dsn: str) -> None:
    """Of one that was there at the start, and of one that came later."""
    clock = ManualClock()
    store(dsn, "early", {"every": 10}, clock=clock, args=[1])
    with follower(dsn, clock) as (pecker, destination):
        pecker.pass_time(5)
        store(dsn, "late", {"every": 10}, clock=clock, args=[2])
        pecker.pass_time(12)
        assert slots(pecker) == [("early", after(10)), ("late", after(15))]
        assert destination.built["early"].args == (1,)
        assert destination.built["late"].args == (2,)


def test_each_replica_follows_an_edit(dsn: str) -> None:
    """Another period, other arguments: both have them at the next slot."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock, args=["old"])
    with follower(dsn, clock) as (one, _), follower(dsn, clock) as (other, _):
        for pecker in (one, other):
            pecker.pass_time(0)
        clock.advance_us(12_000_000)
        one.turn()
        other.turn()
        assert due(one) + due(other) == [after(10)]
        store(dsn, "sweep", {"every": 1}, clock=clock, args=["new"])
        clock.advance_us(500_000)
        sent = len(due(one) + due(other))
        for _ in range(3):
            one.turn()
            other.turn()
            clock.advance_us(1_000_000)
        one.turn()
        other.turn()
        assert sorted((due(one) + due(other))[sent:]) == [
            after(13),
            after(14),
            after(15),
        ]


def test_a_claim_under_an_old_version_wins_nothing(dsn: str) -> None:
    """The edit commits after the last look and before the slot: no run with the old."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock, args=["old"])
    with follower(dsn, clock) as (pecker, destination):
        pecker.pass_time(9.9)
        clock.advance_us(200_000)
        pecker.service.step()  # sends the slot of ten seconds, and looks
        assert due(pecker) == [after(10)]
        clock.advance_us(9_700_000)
        pecker.turn()
        store(dsn, "sweep", {"every": 10}, clock=clock, args=["new"], anchor=False)
        clock.advance_us(400_000)
        following_of(pecker).next = float("inf")  # the look comes after the slot
        pecker.service.step()
        assert due(pecker) == [after(10)]
        following_of(pecker).next = 0.0
        pecker.pass_time(1)
        assert due(pecker) == [after(10), after(20)]
        assert destination.built["sweep"].args == ("new",)


def test_a_run_that_was_asked_for_waits_for_the_edit(dsn: str) -> None:
    """It is taken under the version that is committed, as a slot is."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": DAY}, clock=clock, args=["old"])
    with follower(dsn, clock) as (pecker, destination):
        pecker.pass_time(5)
        store(dsn, "sweep", {"every": DAY}, clock=clock, args=["new"])
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "insert into pecker_pending"
                " (name, due_at, era, epoch, holder, claimed_at, asked)"
                " values ('sweep', %s, 0, 0, gen_random_uuid(), 'infinity', true)",
                [clock.now()],
            )
        following_of(pecker).next = float("inf")  # its look comes late
        pecker.pass_time(3)
        assert pecker.publisher.sent == []
        following_of(pecker).next = 0.0
        pecker.pass_time(3)
        assert len(pecker.publisher.sent) == 1
        assert destination.built["sweep"].args == ("new",)


def test_edits_that_commit_out_of_order_are_all_followed(dsn: str) -> None:
    """A transaction that began first may commit last: its number is lower."""
    clock = ManualClock()
    with (
        follower(dsn, clock) as (pecker, _),
        psycopg.connect(dsn) as first,
        psycopg.connect(dsn) as second,
    ):
        edit(first, "first", {"every": 10}, clock=clock)
        edit(second, "second", {"every": 10}, clock=clock)
        second.commit()
        pecker.pass_time(2)
        first.commit()
        pecker.pass_time(12)
        assert {name for name, _ in slots(pecker)} == {"first", "second"}


def test_messages_are_built_before_their_slots(dsn: str) -> None:
    """Of what is due within a minute, and not of the rest, in idle seconds."""
    clock = ManualClock()
    for name in ("soon", "soon too"):
        store(dsn, name, {"every": 100}, clock=clock)
    store(dsn, "later", {"every": DAY}, clock=clock)
    with follower(dsn, clock) as (pecker, destination):
        pecker.pass_time(30)
        assert destination.built == {}
        pecker.pass_time(20)
        assert sorted(destination.built) == ["soon", "soon too"]
        store(dsn, "soon", {"every": 100}, clock=clock, args=["new"], anchor=False)
        pecker.pass_time(2)
        assert destination.built["soon"].args == ("new",)
        assert pecker.publisher.sent == []


def test_a_slot_that_a_transaction_held_up_runs_when_that_is_rolled_back(
    dsn: str,
) -> None:
    """Claims pass over the row of an edit; there are too many to look at in a round."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 60}, clock=clock)
    late = UpkeepPace(round_every=3_600.0)
    with (
        follower(dsn, clock, pace=late) as (pecker, _),
        psycopg.connect(dsn) as editor,
    ):
        pecker.pass_time(55)
        edit(editor, "sweep", {"every": 90}, clock=clock)
        pecker.pass_time(8)
        assert due(pecker) == []
        editor.rollback()
        pecker.pass_time(1)
        assert due(pecker) == [after(60)]


def test_a_removed_schedule_runs_no_more_and_repeats_nothing(dsn: str) -> None:
    """A name that returns has its first slot one period later."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with follower(dsn, clock) as (pecker, destination):
        pecker.pass_time(12)
        store(dsn, "sweep", {"every": 10}, clock=clock, removed=True)
        pecker.pass_time(30)
        assert due(pecker) == [after(10)]
        assert "sweep" not in destination.built
        store(dsn, "sweep", {"every": 10}, clock=clock)
        pecker.pass_time(12)
        assert due(pecker) == [after(10), after(52)]


@pytest.mark.parametrize("count", [2_500])
def test_rows_that_are_edited_while_all_are_read_are_followed(
    dsn: str, count: int
) -> None:
    """On pages that were read, on those to come, removed, and new ones."""
    clock = ManualClock()
    many(dsn, count)
    with follower(dsn, clock) as (pecker, _):
        assert pecker.service.entries == count
        pecker._database.close()
        clock.advance_us(500_000)
        pecker.service.step()  # the first page of a new connection
        store(dsn, "entry 00001", {"every": 10}, clock=clock)
        store(dsn, "entry 02222", {"every": 10}, clock=clock)
        store(dsn, "entry 00002", {"every": 10}, clock=clock, removed=True)
        store(dsn, "entry 00000", {"every": 10}, clock=clock)
        store(dsn, "entry 99999", {"every": 10}, clock=clock)
        pecker.pass_time(12)
        assert {name for name, _ in slots(pecker)} == {
            f"entry {n:05}" for n in (0, 1, 2_222, 99_999)
        }
        assert pecker.service.entries == count + 1


def test_more_edits_than_a_page_holds_are_all_followed(dsn: str) -> None:
    """In one transaction: one number for all of them."""
    clock = ManualClock()
    with follower(dsn, clock) as (pecker, _):
        many(dsn, 2_500)
        pecker.pass_time(1)
        assert pecker.service.entries == 2_500


def test_a_restored_database_is_read_again(dsn: str) -> None:
    """Its transactions have lower numbers than those that were seen."""
    clock = ManualClock()
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(1)
        following_of(pecker)._since = "4000000000:4000000000:"
        store(dsn, "sweep", {"every": 10}, clock=clock)
        pecker.pass_time(12)
        assert due(pecker) == [after(11)]


def test_a_row_from_the_future_of_another_server_is_no_edit(dsn: str) -> None:
    """A dump keeps the number of a transaction that is to come here."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with psycopg.connect(dsn) as connection:
        connection.execute("update pecker_schedules set edit = '4000000000'::xid8")
    with follower(dsn, clock) as (pecker, _):
        rows = following_of(pecker).rows
        found = rows.read_edits(rows.load_schedules("").snapshot, (0, ""))
        assert found.rows == []
        pecker.pass_time(11)
        assert due(pecker) == [after(10)]


def test_over_a_new_connection_all_are_compared(dsn: str) -> None:
    """What a restore took away or changed back is seen, whatever the numbers say."""
    clock = ManualClock()
    store(dsn, "goes", {"every": 10}, clock=clock)
    store(dsn, "stays", {"every": 10}, clock=clock)
    with follower(dsn, clock) as (pecker, _):
        with psycopg.connect(dsn) as connection:
            connection.execute("delete from pecker_schedules where name = 'goes'")
        pecker._database.close()
        pecker.pass_time(2)
        assert pecker.service.entries == 1
        pecker.pass_time(9)
        assert slots(pecker) == [("stays", after(10))]


def test_messages_are_built_as_they_are_needed_and_bounded(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest is forgotten, and built again when its slot comes."""
    monkeypatch.setattr(stored_sync, "BUILT", 2)
    monkeypatch.setattr(stored_sync, "AHEAD_US", 0)
    clock = ManualClock()
    for name in "abc":
        store(dsn, name, {"every": 10}, clock=clock)
    with follower(dsn, clock) as (pecker, destination):
        assert destination.built == {}
        for n in range(3):
            clock.advance_us(10_000_000)
            pecker.turn()
            assert len(destination.built) == 2, n
        assert sorted(slots(pecker)) == [
            (name, after(seconds)) for name in "abc" for seconds in (10, 20, 30)
        ]


def test_a_message_is_built_of_the_version_that_is_claimed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit between look and claim: followed then, and the claim is under the new."""
    monkeypatch.setattr(stored_sync, "AHEAD_US", 0)
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock, args=["old"])
    with follower(dsn, clock) as (pecker, destination):
        clock.advance_us(9_900_000)
        pecker.turn()
        store(dsn, "sweep", {"every": 10}, clock=clock, args=["new"], anchor=False)
        clock.advance_us(200_000)
        pecker.turn()
        assert due(pecker) == [after(10)]
        assert destination.built["sweep"].args == ("new",)


def test_replicas_take_entries_of_their_kind_only(dsn: str) -> None:
    """Local ones run in workers; one that changes its kind changes its replicas."""
    clock = ManualClock()
    store(dsn, "moves", {"every": 10}, clock=clock)
    store(dsn, "stays", {"every": 10}, clock=clock, run="local")
    with (
        follower(dsn, clock) as (pecker, _),
        follower(dsn, clock, kind="local") as (worker, _),
    ):
        assert (pecker.service.entries, worker.service.entries) == (1, 1)
        store(dsn, "moves", {"every": 10}, clock=clock, run="local")
        clock.advance_us(1_000_000)
        pecker.turn()
        worker.turn()
        assert (pecker.service.entries, worker.service.entries) == (0, 2)


def many(dsn: str, count: int) -> None:
    """Store entries of once a day, in one transaction."""
    with psycopg.connect(dsn) as connection:
        edit(connection, "entry 00001", {"every": DAY})
        connection.execute(
            "insert into pecker_tasks (name, executed_at, version)"
            " select 'entry ' || to_char(n, 'FM00000'), task.executed_at, 1"
            " from generate_series(2, %s) as n, pecker_tasks as task",
            [count],
        )
        connection.execute(
            "insert into pecker_schedules (name, task, schedule, version,"
            "  created_at, changed_at, changed_by)"
            " select 'entry ' || to_char(n, 'FM00000'), task, schedule, 1,"
            "  created_at, changed_at, changed_by"
            " from generate_series(2, %s) as n, pecker_schedules",
            [count],
        )


def test_slots_that_wait_for_the_broker_do_not_push_out_one_another(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many more wait than messages are kept built, none counts as removed."""
    monkeypatch.setattr(stored_sync, "BUILT", 2)
    monkeypatch.setattr(service, "CHUNK", 2)
    clock = ManualClock()
    for nth in range(6):
        store(dsn, f"sweep{nth}", {"every": 60}, clock=clock)
    with follower(dsn, clock) as (pecker, _):
        pecker.publisher.failing = BrokerUnavailable()
        pecker.pass_time(61)
        pecker.publisher.failing = None
        pecker.pass_time(10)
        assert {one.name for one in pecker.publisher.sent} == {
            f"sweep{nth}" for nth in range(6)
        }
        assert [missed(dsn, f"sweep{nth}") for nth in range(6)] == [0] * 6
