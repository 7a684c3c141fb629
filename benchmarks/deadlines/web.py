"""A server of two letters, for clients of HTTP under measure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def answering() -> Iterator[int]:
    """Give the port of a server on loopback, on threads of its own."""
    with _Server(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


class _Server(ThreadingHTTPServer):
    """Its clients leave without a word: that is what is measured."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nobody reads it."""


class _Answers(BaseHTTPRequestHandler):
    """Answers each request."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """One packet for each answer: a second would wait for the first one's receipt."""

    def do_GET(self) -> None:
        """Say something."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
