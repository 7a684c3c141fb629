"""Connections that threads share: lent one by one, checked before a second use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from celery_pecker.kernel.clock import SYSTEM, SystemClock
from celery_pecker.kernel.connections import (
    IDLE_TIMEOUT,
    MAX_CONNECTIONS,
    MAX_IDLE,
    Connections,
)
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.settings import Settings
from celery_pecker.testing import eventually
from tests.integration.test_database import backend, read
from tests.integration.test_migrations import run

Make = Callable[..., Connections]


class LaterClock(SystemClock):
    """The system's clock, some seconds ahead."""

    ahead = 0.0

    def monotonic(self) -> float:
        """Return seconds that only go forward."""
        return super().monotonic() + self.ahead


@pytest.fixture
def make(dsn: str) -> Iterator[Make]:
    """Give a way to make pools that are closed at the end."""
    with ExitStack() as stack:

        def pool(clock: SystemClock = SYSTEM, **more: Any) -> Connections:
            settings = Settings(dsn=dsn, app="a", database_timeout=30.0)
            connections = Connections(settings, clock, role="test", **more)
            stack.callback(connections.close)
            return connections

        yield pool


def used(connections: Connections) -> int:
    """Run a statement; return the process on the server's side that ran it."""
    with connections.connection() as database:
        read(database)
        return backend(database)


def test_a_connection_is_used_again_while_it_is_fresh(make: Make) -> None:
    """One exchange after the other: one connection."""
    connections = make()
    assert used(connections) == used(connections)


def test_a_connection_that_was_idle_for_long_is_made_anew(make: Make) -> None:
    """A firewall in between may have forgotten it, and says nothing."""
    clock = LaterClock()
    connections = make(clock)
    before = used(connections)
    clock.ahead = IDLE_TIMEOUT / 2
    assert used(connections) == before
    clock.ahead += IDLE_TIMEOUT
    assert used(connections) != before


def test_a_connection_that_its_server_ended_is_made_anew(make: Make, dsn: str) -> None:
    """The end is seen before the first statement, which then has no doubtful end."""
    connections = make()
    before = used(connections)
    run(dsn, f"select pg_terminate_backend({before})")
    gone = f"select count(*) from pg_stat_activity where pid = {before}"  # noqa: S608  # a number
    assert eventually(lambda: run(dsn, gone) == [(0,)], 30.0)
    assert used(connections) != before


def test_where_places_are_few_the_next_one_waits_no_longer_than_it_may(
    make: Make,
) -> None:
    """All are lent: the reason is said, and one that comes back is lent."""
    connections = make()
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connections.connection(30.0))
        with (
            pytest.raises(DatabaseUnavailable, match=r"free within 0\.010 s"),
            connections.connection(0.01),
        ):
            pass
    with connections.connection(30.0) as database:
        assert len(read(database)) == 1


def test_a_place_goes_to_who_has_waited_longest(make: Make) -> None:
    """Not to the thread that gave it back, which would ask first."""
    connections = make(most=1)
    places: Any = connections._places
    got: list[str] = []

    def wait(name: str) -> None:
        with connections.connection(30.0):
            got.append(name)

    with ThreadPoolExecutor() as pool:
        with connections.connection(30.0):
            for nth, name in enumerate(("first", "second"), 1):
                pool.submit(wait, name)
                eventually(lambda: len(places._queue) == nth, 30.0)  # noqa: B023  # now
        with connections.connection(30.0):
            got.append("the one that had it")
    assert got == ["first", "second", "the one that had it"]


def test_who_stops_waiting_for_a_place_takes_none_along(make: Make) -> None:
    """Later ones have it."""
    connections = make(most=1)
    with connections.connection(30.0):
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable), connections.connection(0.01):
                pass
    assert used(connections) == used(connections)


def test_a_child_of_a_fork_has_all_places_also_after_a_close(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has them, and the lock, are threads that the child does not have."""
    connections = make(most=1)
    with connections.connection(30.0):
        monkeypatch.setattr(os, "getpid", lambda: -1)
        connections.close()
        with connections.connection(0.01):
            pass


def test_waiting_in_the_queue_is_counted_by_itself(make: Make) -> None:
    """What an exchange may take begins with its place."""
    clock = LaterClock()
    connections = make(clock, most=1)
    places: Any = connections._places

    def ask() -> int:
        with connections.connection(30.0, queue=60.0) as database:
            return backend(database)

    with ThreadPoolExecutor() as pool:
        with connections.connection(30.0) as database:
            asked = pool.submit(ask)
            eventually(lambda: len(places._queue) == 1, 30.0)
            clock.ahead = 40.0
            mine = backend(database)
        assert asked.result(30.0) == mine


def test_without_places_blocks_nest_and_few_connections_stay(make: Make) -> None:
    """Blocks of user code never wait for one another; eight stay for the next ones."""
    connections = make(most=None)
    many = max(MAX_CONNECTIONS, MAX_IDLE) + 1
    with ExitStack() as stack:
        lent = [stack.enter_context(connections.connection()) for _ in range(many)]
        for database in lent:
            read(database)
    assert sum(database.connected for database in lent) == MAX_IDLE


def test_a_connection_whose_statement_failed_is_not_used_again(make: Make) -> None:
    """How far it came is unknown."""
    connections = make()
    lent = []

    def fail() -> None:
        with connections.connection() as database:
            lent.append(database)
            read(database)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not lent[0].connected
