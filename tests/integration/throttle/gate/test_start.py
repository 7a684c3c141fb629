"""A gate's start: what is wrong is said then, what is away is not waited for."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from celery_pecker.testing import EmbeddedRedis, free_port
from throttle.errors import Misconfigured
from throttle.exchange.process import this_process
from throttle.gate import Gate


@pytest.fixture(autouse=True)
def nobody_reports() -> Iterator[None]:
    """This process has no exchange, before and after."""
    this_process.leave()
    yield
    this_process.leave()


def conf(url: str) -> dict[str, object]:
    """Return settings with one limit."""
    return {"throttle_redis_url": url, "throttle_limits": {"main": 1000}}


@pytest.fixture
def no_redis() -> Iterator[str]:
    """Give the address of a server that answers like a web server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    wire, _ = server.accept()
                except OSError:
                    return
                with wire:
                    wire.recv(1000)
                    wire.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_gate_is_ready_once_it_is_made(redis_url: str) -> None:
    """Its first answer has come: no policy stands in for it."""
    gate = Gate({**conf(redis_url), "throttle_policy": "closed"}, wait=10)
    assert gate.admit("main").admitted
    assert this_process.exchanger is not None
    assert this_process.exchanger.alive
    Gate(conf(redis_url))
    assert this_process.exchanger.failures == 0


def test_a_redis_that_is_none_is_a_mistake(no_redis: str) -> None:
    """Which the error says, with the name of the setting; nothing is left running."""
    with pytest.raises(Misconfigured, match="throttle_redis_url"):
        Gate(conf(no_redis))
    assert this_process.exchanger is None


def test_a_redis_that_refuses_us_is_a_mistake(
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """A wrong password does not become right by waiting."""
    server = own_redis(fast=True)
    url = server.url.replace(f":{server.password}@", "nobody:wrong@")
    with pytest.raises(Misconfigured, match="throttle_redis_url"):
        Gate(conf(url))
    assert this_process.exchanger is None


def test_a_redis_that_is_away_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """It may come: the policy holds, and the log says so."""
    url = f"redis://127.0.0.1:{free_port()}/0"
    with caplog.at_level(logging.WARNING, "throttle"):
        gate = Gate(conf(url), wait=0)
    assert "each limit's policy decides until there is an answer" in caplog.text
    assert gate.remaining("main") == 50
    assert this_process.exchanger is not None
