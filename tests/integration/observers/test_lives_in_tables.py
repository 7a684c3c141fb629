"""The statements of hosts side by side: who is buried, who may write, what goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.clock import monotonic, new_id
from celery_pecker.kernel.errors import LeaseLost, ObserverRefused
from celery_pecker.observers import Lease, Place, Status
from celery_pecker.observers.hosts.tables import Outcome, Tables
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Report, Unreachable
from tests.integration.observers.conftest import Desk

UNBROKEN = "update pecker_observer_nodes set since = now() - interval '1 hour'"
OVER = (
    "update pecker_observer_nodes set leased_until = now() - interval '1 second'"
    " where name = %s"
)


def unsaved(ident: int, epoch: int, state: str) -> None:
    """Keep no cursor."""


def over(desk: Desk, *names: str) -> None:
    """Let the leases of hosts be over, as if they had been silent."""
    for name in names:
        desk.sql(OVER, name)


def lease_of(claimed: Claimed) -> Lease:
    """Return what the code of a claimed observer is called with."""
    trust = Trust()
    trust.renew(monotonic(), 100.0)
    return Lease(
        claimed,
        trust,
        schema="public",
        unreachable=Unreachable.STOP,
        save=unsaved,
    )


def guarded(desk: Desk, lease: Lease) -> bool:
    """Return whether a guarded write of this life succeeds."""
    with psycopg.connect(desk.dsn) as connection:
        try:
            lease.guard(connection, state={"by": lease.epoch})
        except LeaseLost:
            return False
    return True


async def aguarded(desk: Desk, lease: Lease) -> bool:
    """Do as `guarded`, on a connection that is awaited."""
    async with await psycopg.AsyncConnection.connect(desk.dsn) as connection:
        held = lease.guard(connection, state={"by": lease.epoch})
        assert held is not None
        try:
            await held
        except LeaseLost:
            await connection.rollback()
            return False
    return True


def pair(desk: Desk) -> tuple[Tables, Tables, Claimed]:
    """Return two hosts, of which the first has taken an observer."""
    first, second = desk.host("first"), desk.host("second")
    desk.sql(UNBROKEN)
    desk.watch.start("btc")
    [claimed] = first.claim(10, 10)
    return first, second, claimed


def test_a_witness_buries_who_is_silent_and_frees_what_it_held(desk: Desk) -> None:
    """The next life has a higher epoch; the row's status does not go back."""
    _, second, claimed = pair(desk)
    over(desk, "first")
    pulse = second.pulse()
    assert (pulse.buried, pulse.orphans) == (["first"], True)
    second.free()
    assert desk.row("btc").status is Status.PROCESSING
    assert desk.row("btc").place is Place.WAITING
    [again] = second.claim(10, 10)
    assert again.epoch > claimed.epoch
    assert again.moved
    assert desk.row("btc").moves == 1
    assert desk.events("btc") == ["created", "started", "released", "moved"]


def test_after_an_outage_nobody_buries_anybody(desk: Desk) -> None:
    """All leases are over: who comes first has no unbroken lease of its own."""
    first, second, _ = pair(desk)
    over(desk, "first", "second")
    assert second.pulse().buried == []
    assert first.pulse().state == "up"
    assert first.pulse().buried == []


def test_a_host_follows_the_life_of_its_own_name(desk: Desk) -> None:
    """No witness is needed, but its lease is over, and it is of before this life."""
    first = desk.host("first")
    other, follower = desk.host("other"), desk.host("first")
    assert follower.pulse().buried == []
    desk.sql(
        "update pecker_observer_nodes set leased_until = now() - interval '1 second'"
        " where node::text <> %s",
        follower.node,
    )
    assert follower.pulse().buried == ["first"]
    assert first.pulse().state is None
    assert other.pulse().state == "up"


def test_one_beside_a_host_that_has_grown_does_not_bury_it(desk: Desk) -> None:
    """An outage began before its next pulse, and the new one is the first after it."""
    grown, other = desk.host("first"), desk.host("other")
    new = desk.host("first", follows=False)
    over(desk, "first", "other")
    assert new.pulse().buried == []
    assert (grown.pulse().state, other.pulse().state) == ("up", "up")


def state(desk: Desk, host: Tables) -> str:
    """Return the state of a host."""
    [(found,)] = desk.sql(
        "select state from pecker_observer_nodes where node::text = %s", host.node
    )
    return str(found)


def test_a_drain_goes_on_in_the_host_that_takes_over(desk: Desk) -> None:
    """One that has grown was drained while its successor started; it is replaced."""
    grown = desk.host("first")
    assert desk.observers.drain("first") == 1
    new = desk.host("first", follows=False)
    assert (state(desk, grown), state(desk, new)) == ("draining", "draining")
    assert state(desk, desk.host("first")) == "up"  # started anew by people
    assert desk.observers.undrain("first") == 3


def test_a_host_that_ends_has_no_successor_that_drains(desk: Desk) -> None:
    """It drains because it hands over."""
    grown = desk.host("first")
    grown.database.change("drain_observer_node", node=grown.node)
    assert state(desk, grown) == "draining"
    assert state(desk, desk.host("first", follows=False)) == "up"


def test_a_drain_outlives_the_burial_of_its_host(desk: Desk) -> None:
    """An outage ended its lease; it joins once more, and takes nothing."""
    host = desk.host("first")
    host.join(str(new_id()), name="first", pid=1, capacity=9, ttl=60.0, drains=True)
    assert state(desk, host) == "draining"


def test_one_that_begins_anew_follows_nobody(desk: Desk) -> None:
    """It was buried itself; who joined beside it meanwhile, under its name, lives."""
    grown = desk.host("first")
    new = desk.host("first", follows=False)
    desk.databases[0].change("end_observer_node", now=None, node=grown.node)
    assert grown.pulse().state is None
    grown.join(str(new_id()), name="first", pid=1, capacity=10, ttl=60.0)
    over(desk, "first")
    assert grown.pulse().buried == []
    assert new.pulse().state == "up"


def test_of_two_hosts_of_one_name_none_buries_the_other(desk: Desk) -> None:
    """Who renewed after the other has joined lives beside it, before an outage too."""
    first, second = desk.host("same"), desk.host("same")
    first.pulse()
    desk.sql(
        "update pecker_observer_nodes set started_at = started_at - interval '1 hour',"
        " leased_until = now() - interval '1 second'"
    )
    assert second.pulse().buried == []
    assert first.pulse().buried == []


def test_who_was_buried_learns_it(desk: Desk) -> None:
    """It renews nothing."""
    first, second, _ = pair(desk)
    over(desk, "first")
    second.pulse()
    assert first.pulse().state is None


def test_of_two_lives_only_the_newer_one_writes(desk: Desk) -> None:
    """The older one was frozen; its guard refuses in the caller's transaction."""
    _, second, claimed = pair(desk)
    old = lease_of(claimed)
    assert guarded(desk, old)
    over(desk, "first")
    second.pulse()
    second.free()
    assert not guarded(desk, old)
    [again] = second.claim(10, 10)
    assert not guarded(desk, old)
    assert guarded(desk, lease_of(again))
    assert desk.row("btc").state == {"by": again.epoch}


def test_an_awaited_guard_refuses_an_overtaken_life(desk: Desk) -> None:
    """As the other does; the cursor is that of the newer life."""
    _, second, claimed = pair(desk)
    old = lease_of(claimed)
    assert asyncio.run(aguarded(desk, old))
    over(desk, "first")
    second.pulse()
    second.free()
    assert not asyncio.run(aguarded(desk, old))
    [again] = second.claim(10, 10)
    assert not asyncio.run(aguarded(desk, old))
    assert asyncio.run(aguarded(desk, lease_of(again)))
    assert desk.row("btc").state == {"by": again.epoch}


def test_no_life_begins_while_a_guard_is_held(desk: Desk) -> None:
    """Its host is buried all the same, and nobody waits for the frozen transaction."""
    _, second, claimed = pair(desk)
    over(desk, "first")
    with psycopg.connect(desk.dsn) as connection:
        lease_of(claimed).guard(connection)
        assert second.pulse().buried == ["first"]
        second.free()
        assert desk.row("btc").node == claimed.node
        assert second.claim(10, 10) == []
        assert second.pulse().orphans
    second.free()
    assert len(second.claim(10, 10)) == 1


def test_the_server_ends_a_guard_that_is_idle_for_too_long(desk: Desk) -> None:
    """Else a process that is frozen for ever would keep the next life away for ever."""
    _, _, claimed = pair(desk)
    trust = Trust()
    lease = Lease(
        claimed,
        trust,
        schema="public",
        unreachable=Unreachable.GO_ON,
        save=unsaved,
    )
    with psycopg.connect(desk.dsn) as connection:
        lease.guard(connection)
        [limit] = connection.execute(
            "show idle_in_transaction_session_timeout"
        ).fetchone() or [""]
        assert limit == "1s"


def test_a_report_of_an_overtaken_life_changes_nothing(desk: Desk) -> None:
    """Nor do its cursors."""
    first, second, claimed = pair(desk)
    over(desk, "first")
    second.pulse()
    second.free()
    [again] = second.claim(10, 10)
    report = Outcome(id=claimed.id, epoch=claimed.epoch, report=Report.STOPPED)
    [answer] = first.report([report])
    assert not answer.done
    assert first.save({claimed.id: (claimed.epoch, "1")}) == set()
    row = desk.row("btc")
    assert (row.status, row.epoch, row.state) == (Status.PROCESSING, again.epoch, None)


def test_what_a_host_does_not_run_any_more_begins_anew(desk: Desk) -> None:
    """It gave up its trust and nobody buried it: new epochs, in its own place."""
    first, _, claimed = pair(desk)
    assert first.retake([claimed.id], 10) == []
    [again] = first.retake([], 10)
    assert again.epoch > claimed.epoch
    assert not guarded(desk, lease_of(claimed))


def test_what_failed_stays_where_it_is(desk: Desk) -> None:
    """Its host tries it again; it does not go from host to host."""
    first, second, claimed = pair(desk)
    failed = Outcome(
        id=claimed.id, epoch=claimed.epoch, report=Report.FAILED, failures=1
    )
    [answer] = first.report([failed])
    assert answer.done
    row = desk.row("btc")
    assert (row.node, row.failures) == (first.node, 1)
    assert second.claim(10, 10) == []


def test_a_draining_host_takes_what_it_holds_to_end_it(desk: Desk) -> None:
    """It gave up its trust while it drained; as long as it lives nobody else may."""
    first, second, claimed = pair(desk)
    first.database.change("drain_observer_node", node=first.node)
    [again] = first.retake([], 10)
    assert again.epoch > claimed.epoch
    first.database.change("end_observer_node", node=first.node)
    assert first.retake([], 10) == []
    assert second.retake([], 10) == []


def test_a_stop_that_arrives_between_two_hosts_is_obeyed(desk: Desk) -> None:
    """By who frees what the dead one held."""
    _, second, _ = pair(desk)
    desk.observers.stop("btc")
    over(desk, "first")
    second.pulse()
    second.free()
    assert desk.row("btc").status is Status.DELETED
    assert second.claim(10, 10) == []


@pytest.mark.parametrize("report", [*Report])
def test_a_stop_goes_before_each_report(desk: Desk, report: Report) -> None:
    """Forward only: what was asked to end does not begin anew, whatever is reported."""
    first, _, claimed = pair(desk)
    desk.observers.stop("btc")
    first.report([Outcome(id=claimed.id, epoch=claimed.epoch, report=report)])
    assert desk.row("btc").status is Status.DELETED


def test_a_parked_one_waits_for_people(desk: Desk) -> None:
    """No host takes it; its name is kept, and its error is shown."""
    first, second, claimed = pair(desk)
    first.report(
        [
            Outcome(
                id=claimed.id,
                epoch=claimed.epoch,
                report=Report.PARKED,
                failures=3,
                error="it broke",
            )
        ]
    )
    row = desk.row("btc")
    assert (row.place, row.failures, row.last_error) == (Place.PARKED, 3, "it broke")
    assert second.claim(10, 10) == []
    desk.observers.restart("btc")
    assert len(second.claim(10, 10)) == 1
    assert desk.row("btc").failures == 0


def test_a_claim_takes_no_more_than_there_is_room_for(desk: Desk) -> None:
    """A heavy one in front does not keep the light ones away."""
    host = desk.host(capacity=6)
    desk.observers.start("heavy", "h1")
    desk.observers.start("heavy", "h2")
    desk.watch.start("w")
    assert [one.name for one in host.claim(6, 10)] == ["h1"]
    assert [one.name for one in host.claim(1, 10)] == ["w"]
    assert host.claim(0, 10) == []


def test_a_claim_passes_by_what_another_host_takes(desk: Desk) -> None:
    """Hosts that claim at once each find some; nobody waits for the other's commit."""
    host = desk.host()
    for number in range(7):
        desk.watch.start(f"w{number}")
    with psycopg.connect(desk.dsn) as rival:
        rival.execute(
            "select id from pecker_observers order by not_before limit 5 for update"
        )
        assert [one.name for one in host.claim(10, 1)] == ["w5"]
    assert sorted(one.name for one in host.claim(10, 2)) == ["w0", "w1"]


def test_a_claim_takes_the_oldest_of_all_kinds(desk: Desk) -> None:
    """A kind of which many wait does not keep another one away."""
    host = desk.host(capacity=100)
    for number in range(3):
        desk.watch.start(f"w{number}")
    desk.observers.start("heavy", "h")
    desk.watch.start("w3")
    assert sorted(one.name for one in host.claim(100, 4)) == ["h", "w0", "w1", "w2"]
    assert [one.name for one in host.claim(100, 4)] == ["w3"]


@pytest.mark.parametrize(
    "change",
    [
        "update pecker_observer_nodes set state = 'draining'",
        "update pecker_observer_nodes set state = 'dead'",
        "update pecker_observer_nodes set leased_until = now() - interval '1 second'",
    ],
)
def test_a_host_that_may_not_takes_nothing(desk: Desk, change: str) -> None:
    """It drains, was buried, or has not renewed in time."""
    host = desk.host()
    desk.watch.start("btc")
    desk.sql(change)
    assert host.claim(10, 10) == []
    assert desk.row("btc").place is Place.WAITING


class Signature(dict[str, Any]):
    """What looks like a signature of Celery."""

    def apply_async(self) -> None:
        """Never called."""


def test_a_notice_is_written_with_the_event(desk: Desk) -> None:
    """One statement parks and writes: no death lies between the two."""
    told = Signature(task="tell", args=(), kwargs={}, options={})
    host = desk.host()
    desk.watch.start("btc", on_parked=told)
    [claimed] = host.claim(10, 10)
    assert host.notices(10) == []
    outcome = Outcome(
        id=claimed.id, epoch=claimed.epoch, report=Report.PARKED, error="why"
    )
    host.report([outcome])
    [notice] = host.notices(10)
    assert '"error": "why"' in notice.event
    assert host.notices(10) == []
    host.notice_sent(notice.id)
    assert desk.sql("select count(*) from pecker_observer_notices") == [(0,)]


def test_what_was_freed_just_now_has_not_waited_long(desk: Desk) -> None:
    """Else the first host that looks would take all that a dead one held."""
    _, second, _ = pair(desk)
    desk.sql("update pecker_observers set not_before = now() - interval '1 day'")
    over(desk, "first")
    second.pulse()
    second.free()
    [waiting] = second.survey().waiting
    assert waiting.age < 3600


@pytest.mark.parametrize("report", [Report.FAILED, Report.PARKED])
def test_a_restart_is_not_lost_to_a_report_on_its_way(
    desk: Desk, report: Report
) -> None:
    """Somebody asked for it before the host had written that the code failed."""
    host = desk.host()
    desk.watch.start("btc")
    [claimed] = host.claim(10, 10)
    desk.observers.restart("btc")
    late = Outcome(
        id=claimed.id, epoch=claimed.epoch, report=report, failures=3, error="it broke"
    )
    host.report([late])
    row = desk.row("btc")
    assert row.failures == 0
    if report is Report.FAILED:
        assert [order.id for order in host.orders()] == [claimed.id]
    else:
        assert row.place is Place.WAITING
        assert len(host.claim(10, 10)) == 1


def test_one_that_moves_between_two_tries_waits_for_the_next(desk: Desk) -> None:
    """Else a drain would try each failing one at once."""
    host = desk.host()
    desk.watch.start("btc")
    [claimed] = host.claim(10, 10)
    failed = Outcome(
        id=claimed.id,
        epoch=claimed.epoch,
        report=Report.FAILED,
        delay=600.0,
        failures=1,
        error="it broke",
    )
    host.report([failed])
    released = Outcome(id=claimed.id, epoch=claimed.epoch, report=Report.RELEASED)
    host.report([released])
    assert host.claim(10, 10) == []
    desk.sql("update pecker_observers set not_before = now()")
    [again] = host.claim(10, 10)
    assert again.failures == 1


def test_history_is_bounded(desk: Desk) -> None:
    """The newest events are kept."""
    host = desk.host()
    for number in range(20):
        desk.watch.start(f"w{number}")
    host.database.change("prune_observers", keep=5, most=5_000)
    kept = [one.name for one in desk.observers.history()]
    assert kept == ["w19", "w18", "w17", "w16", "w15"]


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("x" * 4_095, "allowed are 4096"),
        (float("nan"), "as JSON"),
        (object(), "as JSON"),
        ({1: 2}, "those of JSON"),
        ("\0", "cannot hold"),
    ],
)
def test_a_cursor_that_cannot_be_kept_is_refused(
    desk: Desk, state: object, allowed: str
) -> None:
    """By the assignment and by the guard; the one before stays."""
    host = desk.host()
    desk.watch.start("btc")
    [claimed] = host.claim(10, 10)
    lease = lease_of(claimed)
    lease.state = {"at": "x" * 4_000}
    with pytest.raises(ObserverRefused, match=allowed):
        lease.state = state
    with (
        psycopg.connect(desk.dsn) as connection,
        pytest.raises(ObserverRefused, match=allowed),
    ):
        lease.guard(connection, state=state)
    assert lease.state == {"at": "x" * 4_000}
