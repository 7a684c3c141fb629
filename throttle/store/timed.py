"""A connection whose waits add up: for servers that send a byte now and then.

A socket's timeout begins anew with each byte, and `http.client` reads until a line or
a body is whole: a server that drips is then waited for without end.
"""

from __future__ import annotations

import io
import socket
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Self, cast
from urllib.parse import urlsplit

from throttle.clock import Monotonic

CONNECTING = 1.0
"""Seconds for a connection, which may need a name server and a handshake."""
LEAST = 0.001
"""A socket takes a timeout of 0 for "do not wait at all"."""


class Wire:
    """A connection whose every wait counts against one sum of time."""

    def __init__(self, connection: HTTPConnection, clock: Monotonic) -> None:
        self.connection = connection
        self._clock = clock
        self._until = 0.0

    @classmethod
    def to(cls, url: str, clock: Monotonic) -> Self:
        """Return one that is connected."""
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=CONNECTING)
        connection.connect()
        made = cls(connection, clock)
        connection.sock = cast("socket.socket", _Timed(connection.sock, made))
        return made

    def allow(self, seconds: float) -> None:
        """Allow it to wait so long in all, from now on."""
        self._until = self._clock() + seconds

    def left(self) -> float:
        """Return the seconds that are left, or raise TimeoutError."""
        left = self._until - self._clock()
        if left <= 0:
            message = "not in time"
            raise TimeoutError(message)
        return max(left, LEAST)


class _Timed:
    """What `http.client` uses of a socket, each wait within the wire's time."""

    def __init__(self, sock: socket.socket, wire: Wire) -> None:
        self._sock = sock
        self._wire = wire

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._wire.left())
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        raw = cast("io.RawIOBase", self._sock.makefile(cast("Any", mode), buffering=0))
        return io.BufferedReader(_Reading(raw, self._sock, self._wire))

    def close(self) -> None:
        self._sock.close()


class _Reading(io.RawIOBase):
    """The bytes that come, in time."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, wire: Wire) -> None:
        self._raw = raw
        self._sock = sock
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._sock.settimeout(self._wire.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
