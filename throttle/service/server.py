"""The port: address, certificate, signals.

On loopback by default. On another address the token and the figures would pass in the
clear, so that one needs a certificate, or somebody who says that it is meant
(something in front speaks TLS).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from tornado.httpserver import HTTPServer

from throttle.clock import new_id
from throttle.errors import Misconfigured
from throttle.model import Store
from throttle.service.app import make_app
from throttle.service.desk import Desk
from throttle.settings import Settings
from throttle.watch import start

logger = logging.getLogger("throttle")

LOOPBACK = "127.0.0.1"
PORT = 8585
LARGEST = 1_000_000
"""Bytes of a question; a report of a hundred databases has 20,000."""
HEADERS = 16_384
BACKLOG = 1_024
"""Connections that wait to be taken: all processes come again after a restart."""
SLOW = 5.0
"""Seconds that a body may take to come."""
IDLE = 60.0
"""Seconds that a connection may say nothing."""
LEAVING = 2.0
"""Seconds for the questions in flight when it is told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the service listens, and how."""

    address: str = LOOPBACK
    port: int = PORT
    """0: one that is free."""
    certificate: str | None = None
    """A file with the chain, PEM; and its key."""
    key: str | None = None
    unencrypted: bool = False
    """Another address than loopback without a certificate is meant."""

    def url(self, port: int) -> str:
        """Return how clients name it."""
        scheme = "https" if self.certificate else "http"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{scheme}://{host}:{port}"

    def check(self) -> None:
        """Nothing secret passes in the clear by mistake; else Misconfigured."""
        if self.key and not self.certificate:
            message = "--key needs --certificate, the file with the chain"
            raise Misconfigured(message)
        if self.certificate or self.unencrypted or _is_loopback(self.address):
            return
        message = (
            f"on {self.address} token and figures would pass in the clear: give"
            " --certificate and --key, or say --unencrypted if something in front"
            " speaks TLS"
        )
        raise Misconfigured(message)

    def secured(self) -> ssl.SSLContext | None:
        """Return how the door is locked; None: it is not."""
        if not self.certificate:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = f"--certificate {self.certificate} cannot be used: {error}"
            raise Misconfigured(message) from error
        return context

    def opened(self) -> socket.socket:
        """Return what listens there."""
        try:
            [(family, *_, place), *_] = socket.getaddrinfo(
                self.address, self.port, type=socket.SOCK_STREAM
            )
            found = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as error:
            message = f"{self.address} port {self.port} cannot be had: {error}"
            raise Misconfigured(message) from error
        found.setblocking(False)
        return found


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class Service:
    """The service at its door; for one event loop."""

    def __init__(
        self, settings: Settings, store: Store, door: Door | None = None
    ) -> None:
        self._settings = settings
        self._store = store
        self._door = door or Door()
        self._door.check()

    async def open(self) -> str:
        """Listen from now on; return the URL. Raises Misconfigured."""
        self._app = make_app(self._settings, self._store)
        self._server = HTTPServer(
            self._app,
            ssl_options=self._door.secured(),
            max_body_size=LARGEST,
            max_buffer_size=LARGEST,
            max_header_size=HEADERS,
            body_timeout=SLOW,
            idle_connection_timeout=IDLE,
        )
        listener = self._door.opened()
        self._server.add_socket(listener)
        # It may reach what workers may not: it is a candidate too
        self._watching = start(self._settings, self._store, new_id())
        return self._door.url(listener.getsockname()[1])

    async def close(self) -> None:
        """Nobody new is heard; who has asked gets an answer, if it comes in time."""
        self._server.stop()
        desk: Desk = self._app.settings["desk"]
        await desk.presence.gone(LEAVING)
        await self._server.close_all_connections()
        desk.lane.close()
        self._watching.stop()


def serve(
    settings: Settings,
    store: Store,
    door: Door | None = None,
    *,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the URL once it listens.

    For the main thread. Raises Misconfigured before that.
    """
    asyncio.run(_serve(Service(settings, store, door), ready))


async def _serve(service: Service, ready: Callable[[str], None]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, over.set)
    url = await service.open()
    try:
        ready(url)
        await over.wait()
    finally:
        await service.close()
