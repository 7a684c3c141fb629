"""For how long a host trusts the lease that it renews."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.observers.hosts.host import Host, Plan
from celery_pecker.observers.hosts.tables import Pulse

LEASE = 10.0
TABLE = "pecker_observer_nodes"
UP = Pulse(
    "up", (), orphans=False, orders=False, waiting=False, draining=False, notices=False
)


class Renewals:
    """Trust that keeps what it was renewed with."""

    def __init__(self) -> None:
        self.until: list[float] = []

    def renew(self, sent: float, seconds: float) -> None:
        """Keep the end of the trust."""
        self.until.append(sent + seconds)


def host(trust: Renewals, pulse: Any) -> Host:
    """Return a host with nothing to run, whose lease is renewed by `pulse`."""
    tables: Any = SimpleNamespace(
        join=lambda *_, **__: None, pulse=pulse, database=SimpleNamespace(made=0)
    )
    lives: Any = SimpleNamespace(turned=monotonic(), stuck="", fenced=[], outcomes=[])
    plan = Plan(name="one", pid=1, capacity=1, lease=LEASE, start_rate=1, history=0)
    made: Any = Host(
        plan,
        tables,
        lives,
        trust,  # type: ignore[arg-type]  # keeps what it is called with
        on_loop=lambda _: None,
        over=lambda: None,
        notices=lambda: None,
        events=SimpleNamespace(),  # type: ignore[arg-type]  # nothing happens
        abort=lambda: None,
    )
    made._look = lambda _: None
    made._balance = lambda: None
    result: Host = made
    return result


def test_trust_ends_before_the_lease_that_was_asked_for() -> None:
    """Counted from before the question: the answer may have taken long (I2)."""
    trust = Renewals()
    asked: list[float] = []

    def pulse() -> Pulse:
        asked.append(monotonic())
        return UP

    host(trust, pulse).step()
    assert trust.until[0] < asked[0] + LEASE * 0.85


def test_a_lease_that_was_not_renewed_is_not_trusted_for_longer() -> None:
    """Whether or not the server has the renewal whose answer is lost."""
    trust = Renewals()

    def pulse() -> Pulse:
        raise DatabaseUnavailable(TABLE)

    with pytest.raises(DatabaseUnavailable):
        host(trust, pulse).step()
    assert trust.until == []


def test_a_host_that_has_left_does_not_join_once_more() -> None:
    """It is woken in its last moments: a host that nobody runs would have a lease."""
    made: Any = host(Renewals(), lambda: UP)
    joined: list[object] = []
    made.tables = SimpleNamespace(
        join=lambda *_, **__: joined.append(None),
        database=SimpleNamespace(made=0, change=lambda *_, **__: 1),
        pulse=lambda: UP,
        node="one",
    )
    made.lives.by_id = {}
    made.leave()
    for _ in range(3):
        made.step()
    assert joined == [None]
