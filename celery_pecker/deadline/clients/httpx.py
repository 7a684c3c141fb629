"""httpx whose whole exchange ends at the deadline.

    client = httpx.Client(transport=deadline.clients.httpx.Transport())

or `install(client)` for a client that is there already. httpx' own timeouts are for
each wait; here connecting, TLS, the wait for a free connection, the answer and its body
(streamed too) share what is left. An `AsyncClient` needs nothing of this: under `async
with deadline.within(…)` asyncio ends it.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from celery_pecker.deadline.budget import check, current, ending, timeout


class Transport(httpx.HTTPTransport):
    """Httpx' transport, with the same arguments, that obeys the deadline."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _dial_within(self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request within what is left."""
        if current.get() is None:
            return super().handle_request(request)
        own = request.extensions.get("timeout", {})
        bounded = {**own, "pool": timeout(own.get("pool"))}
        request.extensions = {**request.extensions, "timeout": bounded}
        with ending(httpx.TransportError):
            return super().handle_request(request)


def install(client: httpx.Client) -> None:
    """Let a client obey the deadline, its proxies too."""
    mounts: dict[Any, Any] = client._mounts  # noqa: SLF001 — it has no other door
    for transport in (client._transport, *mounts.values()):  # noqa: SLF001
        if isinstance(transport, httpx.HTTPTransport) and not isinstance(
            transport, Transport
        ):
            transport.__class__ = Transport
            _dial_within(transport)


def _dial_within(transport: httpx.HTTPTransport) -> None:
    pool: Any = transport._pool  # noqa: SLF001 — httpx hands no backend through
    pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001


class _Backend(httpcore.NetworkBackend):
    """Dials within what is left."""

    def __init__(self, wrapped: httpcore.NetworkBackend) -> None:
        self._wrapped = wrapped

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(
            _ended(
                self._wrapped.connect_tcp,
                host,
                port,
                timeout=_left(timeout),
                local_address=local_address,
                socket_options=socket_options,
            )
        )

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(
            _ended(
                self._wrapped.connect_unix_socket,
                path,
                timeout=_left(timeout),
                socket_options=socket_options,
            )
        )

    def sleep(self, seconds: float) -> None:
        self._wrapped.sleep(_left(seconds) or 0.0)
        check()


class _Stream(httpcore.NetworkStream):
    """Waits for each piece no longer than what is left."""

    def __init__(self, wrapped: httpcore.NetworkStream) -> None:
        self._wrapped = wrapped

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = _left(timeout)
        answer: bytes = _ended(self._wrapped.read, max_bytes, timeout=left)
        return answer

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        _ended(self._wrapped.write, buffer, timeout=_left(timeout))

    def close(self) -> None:
        self._wrapped.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(
            _ended(
                self._wrapped.start_tls,
                ssl_context,
                server_hostname,
                timeout=_left(timeout),
            )
        )

    def get_extra_info(self, info: str) -> Any:
        return self._wrapped.get_extra_info(info)


_left = timeout


def _ended(call: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the call's result; raise DeadlineExceeded where the deadline ended it."""
    with ending(httpcore.TimeoutException, httpcore.NetworkError):
        return call(*args, **kwargs)
