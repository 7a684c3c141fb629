"""Behind a way that swallows or trickles, an exchange ends with its deadline."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from celery_pecker import deadline
from tests.integration.deadline.conftest import Ways
from tests.integration.deadline.exchanges import CLIENTS, Exchange, overrun
from tests.proxy import Proxy
from tests.told import telling

GENEROUS = 10.0
"""Seconds. What is measured is in the benchmarks; the clients would wait 20 s."""
BAD = {"black hole": Proxy.hang, "mute": Proxy.mute, "trickle": Proxy.drip}


def in_the_main_thread(exchange: Exchange) -> float:
    """As in a child of prefork, where the signal comes too."""
    with deadline.enforce("prefork"):
        return overrun(exchange)


def in_a_thread(exchange: Exchange) -> float:
    """Where nothing strikes: the client alone has to do it."""
    took: list[float] = []
    thread = threading.Thread(
        target=lambda: took.append(overrun(exchange)), daemon=True
    )
    thread.start()
    thread.join(60.0)
    assert took, "it still waits, or has ended otherwise"
    return took[0]


@pytest.mark.parametrize(
    ("place", "bad"),
    [(in_the_main_thread, "black hole"), *((in_a_thread, bad) for bad in BAD)],
)
@pytest.mark.parametrize("client", list(CLIENTS))
def test_an_exchange_ends_with_its_deadline(
    client: str, bad: str, place: Callable[[Exchange], float], way: Ways
) -> None:
    """With the deadline's own error, and the next exchange is in order again."""
    proxy, address = way(client)
    with CLIENTS[client](address) as exchange:
        with deadline.within(30):
            right = exchange()
        BAD[bad](proxy)
        assert place(exchange) < GENEROUS
        proxy.open()
        assert exchange() == right
        with deadline.within(30):
            assert exchange() == right


@pytest.mark.parametrize("client", list(CLIENTS))
def test_connecting_ends_with_the_deadline(client: str, way: Ways) -> None:
    """The first exchange, to a server that accepts and never answers."""
    proxy, address = way(client)
    proxy.hang()
    with CLIENTS[client](address) as exchange:
        assert in_a_thread(exchange) < GENEROUS
        proxy.open()
        assert exchange()


@pytest.mark.parametrize("client", list(CLIENTS))
def test_nothing_is_sent_after_the_deadline(client: str, way: Ways) -> None:
    """An exchange that would begin too late does not begin."""
    proxy, address = way(client)
    with CLIENTS[client](address) as exchange:
        with deadline.within(0), pytest.raises(deadline.DeadlineExceeded):
            exchange()
        assert proxy.connections() == 0
        assert exchange()


@pytest.mark.parametrize("bad", list(BAD))
def test_greenlets_end_with_their_deadline(bad: str, way: Ways) -> None:
    """All clients at once, in a process where gevent has patched everything."""
    ways = {client: way(client) for client in CLIENTS}
    addresses = {client: address for client, (_, address) in ways.items()}
    program = (
        "from gevent import monkey; monkey.patch_all();"
        "from tests.told import told;"
        "from tests.integration.deadline.exchanges import main;"
        "main(*told())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=telling(addresses),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for proxy, _ in ways.values():
                BAD[bad](proxy)
            process.stdin.write("\n")
            process.stdin.flush()
            took = json.loads(process.stdout.readline())
        finally:
            process.kill()
    assert set(took) == set(CLIENTS)
    assert all(late is not None and late < GENEROUS for late in took.values()), took
