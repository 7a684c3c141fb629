"""The port of a service: address, certificate, limits, signals.

On loopback by default. On another address the token would pass in the clear, so that
one needs a certificate, or the option that says that something in front speaks TLS.
"""

import asyncio
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.surfaces.service.threads import InFlight

LOOPBACK = "127.0.0.1"
LARGEST = 1_000_000
"""Bytes of a request."""
HEADERS = 16_384
BACKLOG = 1_024
"""Connections that wait to be taken: all clients come again after a restart."""
CONNECTIONS = 500
"""Open at a time; one more is closed at once. Each may have headers under way, and a
file descriptor of 1,024."""
BODY_TIMEOUT = 5.0
"""Seconds that a body may take to come."""
IDLE_TIMEOUT = 60.0
"""Seconds that a connection may be silent."""
END_TIMEOUT = 2.0
"""Seconds for the requests in flight at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where the service listens, and how."""

    address: str = LOOPBACK
    port: int = 0
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
        """Raise Misconfigured where a secret would pass in the clear by mistake."""
        if self.key and not self.certificate:
            raise Misconfigured("--key needs --certificate, the file with the chain")
        if self.certificate or self.unencrypted or _is_loopback(self.address):
            return
        raise Misconfigured(
            f"on {self.address} the token would pass in the clear: give"
            " --certificate and --key, or say --unencrypted if something in front"
            " speaks TLS"
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None: plain HTTP."""
        if not self.certificate:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(
                f"--certificate {self.certificate} cannot be used: {error}"
            ) from error
        return context

    def open(self) -> socket.socket:
        """Return the socket that listens."""
        try:
            [(family, *_, place), *_] = socket.getaddrinfo(
                self.address, self.port, type=socket.SOCK_STREAM
            )
            opened = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as error:
            raise Misconfigured(
                f"{self.address} port {self.port} cannot be had: {error}"
            ) from error
        opened.setblocking(False)
        return opened


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class HttpService(Protocol):
    """What `run` serves."""

    async def open(self) -> str:
        """Listen from now on; return the URL."""

    async def close(self) -> None:
        """Take no more requests; let those in flight end."""


class _Server(HTTPServer):
    """A server with a limit of connections."""

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        """Serve a connection, or close it where there are too many."""
        if len(self._connections) >= CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


class Port:
    """An application at its port, whose every wait and size is bounded.

    It listens from now on. Raises Misconfigured.
    """

    def __init__(
        self,
        app: Any,
        listener: Listener,
        in_flight: InFlight,
        *,
        largest: int = LARGEST,
    ) -> None:
        self._in_flight = in_flight
        self._server = _Server(
            app,
            ssl_options=listener.tls(),
            max_body_size=largest,
            max_buffer_size=largest,
            max_header_size=HEADERS,
            body_timeout=BODY_TIMEOUT,
            idle_connection_timeout=IDLE_TIMEOUT,
        )
        opened = listener.open()
        self._server.add_socket(opened)
        self.url = listener.url(opened.getsockname()[1])

    async def close(self) -> None:
        """Take no more requests; let those in flight end, if they do in time."""
        self._server.stop()
        await self._in_flight.wait(END_TIMEOUT)
        await self._server.close_all_connections()


def run(service: HttpService, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; call `ready` with the URL once it listens.

    For the main thread. Raises Misconfigured before that.
    """
    asyncio.run(_run(service, ready))


async def _run(service: HttpService, ready: Callable[[str], None]) -> None:
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
