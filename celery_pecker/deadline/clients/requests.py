"""requests whose whole exchange ends at the deadline.

    session = requests.Session()
    deadline.clients.requests.install(session)

requests' own timeout is for each wait: a server that sends one byte a second is never
too slow for it. Here connecting, TLS, the answer, its body (streamed too), redirects
and the pauses of retries share what is left.
"""

import socket
from collections.abc import Iterator
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
)

from celery_pecker.deadline.budget import check, ending, remaining, timeout
from celery_pecker.deadline.clients.sockets import bound, connect
from celery_pecker.kernel.clock import pause


def install(session: requests.Session) -> None:
    """Let a session obey the deadline, for http:// and https://.

    It gets new adapters: retries and pool sizes of its own are given to `Adapter`.
    """
    for prefix in ("https://", "http://"):
        session.mount(prefix, Adapter())


class Adapter(HTTPAdapter):
    """Requests' adapter, with the same arguments, that obeys the deadline."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_retries = _Retries.of(self.max_retries)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make connections that obey it."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """Make connections through a proxy that obey it; SOCKS dials by itself."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send the request within what is left."""
        check()
        with ending(requests.RequestException):
            response = super().send(*args, **kwargs)
        response.__class__ = _Response
        return response


class _Response(requests.Response):
    """A response whose body, too, ends with the deadline's own error."""

    def iter_content(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return _bounded(super().iter_content(*args, **kwargs))


def _bounded(chunks: Iterator[Any]) -> Iterator[Any]:
    with ending(requests.RequestException):
        yield from chunks


class _Retries(Retry):
    """The retries that were asked for, with pauses that end at the deadline."""

    @classmethod
    def of(cls, original: Retry) -> Retry:
        """Return the same rules under the deadline."""
        known = vars(original).items()
        new = cls.__new__(cls)
        vars(new).update(known)
        return new

    def sleep(self, response: Any = None) -> None:
        left = remaining()
        if left is None:
            super().sleep(response)
            return
        asked = self.get_retry_after(response) if response is not None else None
        if asked is None or not self.respect_retry_after_header:
            asked = self.get_backoff_time()
        pause(min(asked, left))
        check()


class _Dials:
    """What is mixed into a class of connections."""

    sock: Any

    def _new_conn(self) -> socket.socket:
        me: Any = self
        try:
            return connect(
                (me._dns_host, me.port),  # noqa: SLF001
                me.timeout,
                source=me.source_address,
                options=me.socket_options,
            )
        except socket.gaierror as error:
            raise NameResolutionError(me.host, me, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(
                me, f"Connection to {me.host} timed out: {error}"
            ) from error
        except OSError as error:
            raise NewConnectionError(
                me, f"Failed to establish a new connection: {error}"
            ) from error


class _Plain(_Dials, HTTPConnection):
    """A connection that obeys the deadline."""


class _Secure(_Dials, HTTPSConnection):
    """A TLS connection that does."""

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        sock.settimeout(timeout(sock.gettimeout()))  # of the whole TLS handshake
        return sock

    def connect(self) -> None:
        super().connect()
        bound(self.sock)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


_POOLS = {"http": _PlainPool, "https": _SecurePool}
