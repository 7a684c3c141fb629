"""A worker with a gate, for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread

import pytest

from tests.integration.throttle.worker.stand import Stand


@pytest.fixture
def stands(tmp_path: Path, redis_url: str) -> Iterator[Callable[..., Stand]]:
    """Give a function that makes a stand; its broker is Redis if nothing is said."""
    with ExitStack() as stack:

        def make(broker: str = redis_url, **options: str) -> Stand:
            made = Stand(tmp_path, broker=broker, store=redis_url, **options)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def stand(stands: Callable[..., Stand]) -> Stand:
    """Give one on Redis."""
    return stands()


@pytest.fixture(params=["redis", "rabbitmq"])
def either(request: pytest.FixtureRequest, stands: Callable[..., Stand]) -> Stand:
    """Give one on each broker in turn."""
    if request.param == "rabbitmq":
        return stands(request.getfixturevalue("amqp_url"))
    return stands()


class Web(StreamRequestHandler):
    """Answers as a web server does what it does not understand."""

    def handle(self) -> None:
        """Bad request."""
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.fixture
def http_port() -> Iterator[int]:
    """Give the port of a server that speaks HTTP and nothing else."""
    with TCPServer(("127.0.0.1", 0), Web) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
