"""Sockets whose every wait ends at the deadline.

A socket's own timeout begins anew with each byte that arrives, so a server that
trickles can hold a reader for ever. Here what is left is looked up for each wait.
"""

import contextlib
import inspect
import socket
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from celery_pecker.deadline.budget import LEAST, MOST, Budget, current, timeout
from celery_pecker.kernel.clock import monotonic

Option = tuple[int, int, int | bytes]


def bound(sock: socket.socket) -> socket.socket:
    """Return the very same socket, bounded from now on; plain, TLS or gevent's."""
    kind: type[Any] = type(sock)
    if not issubclass(kind, _Bounded):
        sock.__class__ = _bounded(kind)  # type: ignore[arg-type]  # a type has a hash
    return sock


def connect(
    address: tuple[str, int],
    own: float | None,
    *,
    source: tuple[str, int] | None = None,
    options: Iterable[Option] | None = None,
) -> socket.socket:
    """Return a bounded socket that is connected; all addresses share what is left.

    The look-up of the name is the system's and cannot be bounded.
    """
    host, port = address
    last: OSError | None = None
    for family, kind, proto, _, where in socket.getaddrinfo(
        host.strip("[]"), port, 0, socket.SOCK_STREAM
    ):
        left = timeout(own)
        sock = socket.socket(family, kind, proto)
        try:
            for option in options or ():
                sock.setsockopt(*option)
            sock.settimeout(left)
            if source is not None:
                sock.bind(source)
            sock.connect(where)
        except OSError as error:
            sock.close()
            last = error
            timeout()  # over is over, whatever the other addresses are
            continue
        except BaseException:
            sock.close()
            raise
        sock.settimeout(own)
        return bound(sock)
    raise last or OSError(f"{host} has no address")


class _Bounded:
    """Marks the classes that are made here."""

    __slots__ = ()


@cache
def _bounded(kind: type[Any]) -> type[Any]:
    added: dict[str, Any] = {"__slots__": ()}
    for name in ("recv", "recv_into", "send", "sendall"):
        added[name] = _within(getattr(kind, name))
    return type(f"Bounded{kind.__name__}", (_Bounded, kind), added)


def _within(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method, bounded. Written for speed: it is called for each wait."""
    deadline = current.get

    def bounded(sock: Any, *args: Any) -> Any:
        budget = deadline()
        if budget is None:
            return plain(sock, *args)
        return _wait(sock, plain, budget, args)

    def bounded_by_name(sock: Any, *args: Any, **kwargs: Any) -> Any:
        budget = deadline()
        if budget is None:
            return plain(sock, *args, **kwargs)
        return _wait(sock, partial(plain, **kwargs), budget, args)

    # those in C take no keywords (or none are used); gevent's are called with them
    return bounded if inspect.ismethoddescriptor(plain) else bounded_by_name


def _wait(
    sock: Any, plain: Callable[..., Any], budget: Budget, args: tuple[Any, ...]
) -> Any:
    left = budget.at - monotonic()
    if left <= 0.0:
        raise budget.exceeded()
    own = sock.gettimeout()
    if own is not None and own <= left:
        return plain(sock, *args)
    sock.settimeout(min(max(left, LEAST), MOST))
    try:
        return plain(sock, *args)
    except TimeoutError:
        raise budget.exceeded() from None
    finally:
        with contextlib.suppress(OSError):  # closed by another thread
            sock.settimeout(own)
