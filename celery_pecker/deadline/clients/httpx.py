"""httpx whose whole exchange ends at the deadline.

    client = httpx.Client(transport=deadline.clients.httpx.Transport())

or `install(client)` for a client that is there already. httpx' own timeouts are for
each wait; here connecting, TLS, the wait for a free connection, the answer and its body
(streamed too) share what is left. An `AsyncClient` needs nothing of this: under `async
with deadline.within(…)` asyncio ends it.
"""

from functools import partial
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
    pool._network_backend = _Bounded(pool._network_backend)  # noqa: SLF001


TIMEOUTS = {
    "connect_tcp": 2,
    "connect_unix_socket": 1,
    "read": 1,
    "write": 1,
    "start_tls": 2,
}
"""What waits, of backends and of streams, and which of its arguments is the timeout."""


class _Bounded:
    """A backend, or a stream, that waits for nothing longer than what is left."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._wrapped, name)
        nth = TIMEOUTS.get(name)
        return plain if nth is None else partial(_within, plain, nth)

    def sleep(self, seconds: float) -> None:
        self._wrapped.sleep(timeout(seconds) or 0.0)
        check()


def _within(plain: Any, nth: int, *args: Any, **kwargs: Any) -> Any:
    """Return the answer of a call; a stream that it opens is bounded, too."""
    if len(args) > nth:
        args = (*args[:nth], timeout(args[nth]), *args[nth + 1 :])
    else:
        kwargs["timeout"] = timeout(kwargs.get("timeout"))
    with ending(httpcore.TimeoutException, httpcore.NetworkError):
        answer = plain(*args, **kwargs)
    return _Bounded(answer) if isinstance(answer, httpcore.NetworkStream) else answer
