"""Servers that are well, and the ways to them that are not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from psycopg import conninfo

from tests.proxy import Proxy

Ways = Callable[[str], tuple[Proxy, str]]


class _Page(BaseHTTPRequestHandler):
    """A page of some length; `/stuck` answers with a redirect to a trap."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        body = b"x" * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be silent."""


@pytest.fixture(scope="session")
def http_server() -> Iterator[str]:
    """Give the address of a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def way(dsn: str, redis_url: str, http_server: str) -> Iterator[Ways]:
    """Give a function: the proxy before a client's server, and its address there."""
    with ExitStack() as stack:

        def to(client: str) -> tuple[Proxy, str]:
            if client.startswith(("psycopg", "sqlalchemy", "django")):
                given = conninfo.conninfo_to_dict(dsn)
                host, port = str(given["host"]), int(str(given["port"]))
                proxy = stack.enter_context(Proxy(host, port))
                changed = {"host": "127.0.0.1", "port": str(proxy.port)}
                return proxy, conninfo.make_conninfo(dsn, **changed)
            url = redis_url if client == "redis" else http_server
            proxy = stack.enter_context(Proxy.before(url))
            return proxy, proxy.url

        yield to
