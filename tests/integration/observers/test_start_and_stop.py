"""What callers ask: start, stop, status, in whose transaction, and refusals."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from celery_pecker.kernel.errors import (
    Misconfigured,
    NameTaken,
    NoCapacity,
    NoTransaction,
    ObserverRefused,
)
from celery_pecker.observers import Answer, Observers, Place, Status
from tests.integration.observers.conftest import Desk, heavy
from tests.integration.outbox.doors import django_door


def test_a_start_is_there_when_the_transaction_is_committed(desk: Desk) -> None:
    """Rolled back, there never was one."""
    with psycopg.connect(desk.dsn) as connection:
        desk.watch.start("lost", symbol="A", connection=connection)
        connection.rollback()
        desk.watch.start("kept", symbol="B", connection=connection)
        assert desk.observers.status("kept") is None
    row = desk.row("kept")
    assert row.status is Status.CREATED
    assert row.place is Place.WAITING
    assert row.args == {"symbol": "B"}
    assert desk.observers.status("lost") is None
    assert [one.name for one in desk.observers.list()] == ["kept"]


def test_a_session_of_sqlalchemy_is_joined(desk: Desk) -> None:
    """The adapters are those of the outbox."""
    engine = create_engine(desk.dsn.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session:
        desk.watch.start("lost", connection=session)
        session.rollback()
        desk.watch.start("kept", connection=session)
        session.commit()
    engine.dispose()
    assert [one.name for one in desk.observers.list()] == ["kept"]


def test_a_start_in_an_atomic_block_of_django_is_undone_with_it(desk: Desk) -> None:
    """The connection of Django is joined, not a second one."""
    with django_door(desk.dsn) as door:
        desk.watch.start("lost", connection=door.connection)
        door.rollback()
    with django_door(desk.dsn) as door:
        desk.watch.start("kept", connection=door.connection)
        assert desk.observers.status("kept") is None
        door.commit()
    assert [one.name for one in desk.observers.list()] == ["kept"]


async def _astart(desk: Desk) -> None:
    connection = await psycopg.AsyncConnection.connect(desk.dsn)
    async with connection:
        await desk.watch.astart("kept", "A", connection=connection)
        await desk.observers.astop("nobody", connection=connection)
    await desk.observers.astart("watch", "own", symbol="B")


def test_what_is_awaited_does_the_same(desk: Desk) -> None:
    """On a connection that is awaited, and beside the event loop without one."""
    import asyncio  # noqa: PLC0415

    asyncio.run(_astart(desk))
    assert [one.name for one in desk.observers.list()] == ["kept", "own"]


def test_a_connection_without_a_transaction_is_refused(desk: Desk) -> None:
    """The start would be committed although the caller rolls back."""
    with (
        psycopg.connect(desk.dsn, autocommit=True) as connection,
        pytest.raises(NoTransaction),
    ):
        desk.watch.start("x", connection=connection)


def test_a_name_is_taken_until_its_observer_is_deleted(desk: Desk) -> None:
    """And says so."""
    desk.watch.start("btc")
    with pytest.raises(NameTaken, match="'btc' is there already"):
        desk.watch.start("btc")
    desk.observers.stop("btc")
    desk.watch.start("btc")


def test_one_is_started_by_the_name_of_a_kind_that_a_host_declared(desk: Desk) -> None:
    """Who starts it needs none of its code; an unknown kind is named with the known."""
    from celery import Celery  # noqa: PLC0415

    app = Celery("elsewhere", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=desk.dsn, pecker_app="desk")
    elsewhere = Observers(app)
    with pytest.raises(ObserverRefused, match="known are none"):
        elsewhere.start("heavy", "h")
    desk.host()
    elsewhere.start("heavy", "h")
    assert desk.row("h").weight == 5
    with pytest.raises(ObserverRefused, match="known are 'heavy', 'watch'"):
        elsewhere.start("light", "l")
    elsewhere.close()


def test_one_that_is_too_heavy_for_each_host_is_refused(desk: Desk) -> None:
    """It would wait for ever; where no host lives nobody can say, and it waits."""
    desk.observers.start("heavy", "early")
    desk.host(capacity=4)
    with pytest.raises(ObserverRefused, match="allowed are 1 to 4"):
        desk.observers.start("heavy", "late")


def test_where_nobody_has_room_it_waits_or_is_refused(desk: Desk) -> None:
    """What waits takes its room before it runs."""
    host = desk.host(capacity=2)
    desk.watch.start("a")
    assert len(host.claim(2, 10)) == 1
    desk.watch.start("b", full="refuse")
    with pytest.raises(NoCapacity, match="no host has room"):
        desk.watch.start("c", full="refuse")
    desk.watch.start("c")
    assert desk.row("c").place is Place.WAITING


def test_each_wrong_stop_has_its_answer(desk: Desk) -> None:
    """Unknown, not active yet, asked, already asked, already deleted."""
    stop = desk.observers.stop
    assert stop("nobody") is Answer.NOT_FOUND
    desk.watch.start("new")
    assert stop("new") is Answer.NOT_ACTIVE_YET
    assert desk.row("new").status is Status.DELETED
    assert stop("new") is Answer.ALREADY_DELETED
    desk.watch.start("runs")
    host = desk.host()
    [claimed] = host.claim(10, 10)
    assert stop("runs") is Answer.ASKED
    assert desk.row("runs").status is Status.ON_DELETING
    assert desk.row("runs").place is Place.STOPPING
    assert stop("runs") is Answer.ALREADY_ASKED
    assert desk.observers.restart("runs") is Answer.ALREADY_ASKED
    [order] = host.orders()
    assert (order.id, order.stop) == (claimed.id, True)


def test_one_that_is_stopped_before_it_runs_is_never_run(desk: Desk) -> None:
    """A stop is no message that arrives too early: it stays in the row."""
    desk.watch.start("new")
    assert desk.observers.stop("new") is Answer.NOT_ACTIVE_YET
    assert desk.host().claim(10, 10) == []
    assert desk.events("new") == ["created", "stopped"]


@pytest.mark.parametrize(
    ("name", "kwargs", "allowed"),
    [
        ("", {}, "1 to 500 characters"),
        ("a\0b", {}, "none NUL"),
        ("a", {"symbol": object()}, "as JSON"),
        ("a", {"symbol": float("nan")}, "as JSON"),
        ("a", {"symbol": {1: 2}}, "symbol|JSON"),
        ("a", {"color": "red"}, "allowed is"),
        ("a", {"symbol": "x" * 20_000}, "allowed are 16384"),
        ("a", {"full": "maybe"}, "'wait' and 'refuse'"),
        ("a", {"on_parked": "tell"}, "allowed is a signature"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(
    desk: Desk, name: str, kwargs: dict[str, Any], allowed: str
) -> None:
    """Before anything is written."""
    if kwargs == {"symbol": {1: 2}}:
        desk.watch.start("keys", **kwargs)
        assert desk.row("keys").args == {"symbol": {"1": 2}}
        return
    with pytest.raises(ObserverRefused, match=allowed):
        desk.watch.start(name, **kwargs)
    assert desk.observers.list() == []


def test_an_app_has_one_place_for_its_observers(desk: Desk) -> None:
    """Two would not know of each other's kinds."""
    with pytest.raises(Misconfigured, match="Observers already"):
        Observers(desk.observers.app)
    with pytest.raises(Misconfigured, match="declared already"):
        desk.observers.observer(heavy, name="watch")
