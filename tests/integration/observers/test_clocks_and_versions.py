"""A clock that steps back, a standby that lost the last grants, a newer host beside."""

from __future__ import annotations

from functools import partial

import psycopg

from celery_pecker.observers import Place
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.model import Report
from tests.integration.observers.conftest import Desk
from tests.integration.observers.test_lives_in_tables import (
    UNBROKEN,
    guarded,
    lease_of,
    over,
    pair,
)

STEPPED = """
update pecker_observer_nodes set since = since + interval '1 hour',
    leased_until = leased_until + interval '1 hour',
    started_at = started_at + interval '1 hour';
update pecker_observers set epoch = epoch + 3600000000,
    not_before = not_before + interval '1 hour',
    created_at = created_at + interval '1 hour',
    modified_at = modified_at + interval '1 hour'
"""
"""What stands there where the clock has stepped back by an hour."""
NEWER = """
alter table pecker_observer_nodes add column zone text not null default 'a';
alter table pecker_observer_nodes drop constraint pecker_observer_nodes_state_check;
alter table pecker_observers add column region text not null default 'eu';
alter table pecker_observer_history add column reason text not null default 'none'
"""


def test_a_clock_that_stepped_back_keeps_nobody_waiting(desk: Desk) -> None:
    """A dead host does not stay for an hour, and what it held does not wait for one."""
    first, second, _ = pair(desk)
    desk.sql(STEPPED)
    before = desk.row("btc").epoch
    [again] = first.retake([], 10)
    assert (again.epoch > before, again.delay) == (True, 0.0)
    second.pulse()
    left = {one.name: one.lease for one in desk.observers.nodes()}
    assert left["first"] <= 60.0
    desk.sql(UNBROKEN)
    over(desk, "first")
    second.pulse()
    second.free()
    [moved] = second.claim(10, 10)
    assert moved.epoch > again.epoch


def test_one_that_waits_while_the_clock_steps_back_is_taken(desk: Desk) -> None:
    """Within a minute, when a host clears up; what failed keeps its wait."""
    host = desk.host()
    desk.watch.start("new")
    desk.watch.start("failed")
    desk.sql(
        "update pecker_observers set not_before = now() + interval '10 minutes',"
        " failures = 1 where name = 'failed'"
    )
    desk.sql(STEPPED)
    assert host.claim(10, 10) == []
    host.database.change("prune_observers", keep=10, most=5_000)
    assert [one.name for one in host.claim(10, 10)] == ["new"]
    wait = desk.row("failed").not_before - desk.row("failed").modified_at
    assert 590 < wait.total_seconds() < 610


def test_after_a_step_back_some_at_a_time_are_set_right(desk: Desk) -> None:
    """As many as are asked for, and nobody waits for a row that is held."""
    host = desk.host()
    for name in ("held", "one", "two", "three"):
        desk.watch.start(name)
    desk.sql(STEPPED)
    prune = partial(desk.databases[-1].change, "prune_observers", now=None, keep=10)
    with psycopg.connect(desk.dsn) as holder:
        holder.execute("select from pecker_observers where name = 'held' for update")
        prune(most=2)
        assert len(host.claim(10, 10)) == 2
        prune(most=2)
        assert len(host.claim(10, 10)) == 1
    prune(most=2)
    assert [one.name for one in host.claim(10, 10)] == ["held"]


def test_one_that_was_handed_over_after_a_step_is_taken(desk: Desk) -> None:
    """It was started by a clock that was ahead."""
    first, second, claimed = pair(desk)
    desk.sql("update pecker_observers set not_before = now() + interval '1 hour'")
    released = Outcome(id=claimed.id, epoch=claimed.epoch, report=Report.RELEASED)
    first.report([released])
    assert len(second.claim(10, 10)) == 1


def test_a_standby_that_lost_the_last_grant_gives_none_twice(desk: Desk) -> None:
    """Its row has the epoch before; the next one is above what it never heard of."""
    first, second, claimed = pair(desk)
    over(desk, "first")
    second.pulse()
    second.free()
    [lost] = second.claim(10, 10)
    desk.sql(
        "update pecker_observers set node = %s, last_node = %s, epoch = %s",
        *(first.node, first.node, claimed.epoch),
    )
    assert not guarded(desk, lease_of(lost))
    second.free()
    [after] = second.claim(10, 10)
    assert after.epoch > lost.epoch
    assert guarded(desk, lease_of(after))
    assert not guarded(desk, lease_of(lost))


def test_a_newer_host_and_what_it_writes_disturb_no_older_one(desk: Desk) -> None:
    """Side by side in a deploy: its columns, its state, its kind, its events."""
    older, newer, claimed = pair(desk)
    desk.sql(NEWER)
    desk.sql(
        "update pecker_observer_nodes set state = 'paused', zone = 'b',"
        " kinds = '{watch,other}' where name = 'second'"
    )
    desk.sql(
        "insert into pecker_observers (name, kind, weight, not_before, created_at,"
        " modified_at) values ('theirs', 'other', 1, now(), now(), now())"
    )
    desk.sql("update pecker_observer_history set event = 'promoted'")
    assert older.pulse().state == "up"
    assert older.claim(10, 10) == []
    loads = {one.node: one.up for one in older.survey().loads}
    assert loads == {older.node: True, newer.node: False}
    assert desk.row("theirs").place is Place.WAITING
    assert desk.events("btc")[-1] == "promoted"
    assert {one.state for one in desk.observers.nodes()} == {"up", "paused"}
    assert older.report(
        [Outcome(id=claimed.id, epoch=claimed.epoch, report=Report.RELEASED)]
    )[0].done
    assert [one.name for one in older.claim(10, 10)] == ["btc"]
    over(desk, "second")
    assert older.pulse().buried == ["second"]
