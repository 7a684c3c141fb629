"""A TCP proxy on loopback that does to a connection what networks do.

It stands between the code under test and a server that must not be touched itself:
the server is well, the way to it is not. All states hold until the next one is set:

- `open`: bytes pass, `delay` seconds late in each direction;
- `hang`: connections are accepted, bytes are taken and kept: a server that never
  answers. They arrive when the proxy opens again, as TCP retransmits them;
- `mute`: requests arrive, answers are kept: the client cannot know what was done;
- `drip`: answers arrive byte by byte, so that no single wait is ever long;
- `refuse`: nobody listens, and all connections are reset.

`cut()` resets the connections of this moment and changes nothing else.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import queue
import selectors
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing.servers import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 256 * 1024
_BACKLOG = 128
_ANSWERED_WITHIN = 10.0
# Sent on close with SO_LINGER on and 0 seconds: a reset instead of a goodbye.
_RESET = struct.pack("ii", 1, 0)


class Way(enum.StrEnum):
    """What the way to the server is like."""

    OPEN = "open"
    HANG = "hang"
    MUTE = "mute"
    DRIP = "drip"
    REFUSE = "refuse"


class _Pipe:
    """One direction of one connection: bytes waiting for their time."""

    __slots__ = ("answers", "ended", "sink", "source", "waiting")

    def __init__(
        self, source: socket.socket, sink: socket.socket, *, answers: bool
    ) -> None:
        self.source = source
        self.sink = sink
        self.answers = answers
        self.waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self.ended = False


class Proxy:
    """A port on loopback that leads to `(host, port)` for as long as it is well."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.url = ""
        self.delay = 0.0
        self.every = 0.0
        self._way = Way.OPEN
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[socket.socket, _Pipe] = {}
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        # not port 0: those are the ports of outgoing connections, and a client that
        # dials one of them while nobody listens may be connected to itself
        self.port = free_port()
        self._listener: socket.socket | None = self._listen()
        self._thread = threading.Thread(
            target=self._run, name=f"proxy-{self.port}", daemon=True
        )
        self._thread.start()

    @classmethod
    def before(cls, url: str) -> Self:
        """Return a proxy that leads to the server of a URL; `url` is its own."""
        parts = urlsplit(url)
        usual = {"amqp": 5672, "redis": 6379}.get(parts.scheme, 80)
        proxy = cls(parts.hostname or HOST, parts.port or usual)
        login, at, _ = parts.netloc.rpartition("@")
        there = parts._replace(netloc=f"{login}{at}{HOST}:{proxy.port}")
        proxy.url = there.geturl()
        return proxy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def way(self) -> Way:
        """What the way to the server is like now."""
        return self._way

    def open(self, delay: float = 0.0) -> None:
        """Let bytes pass again, those kept so far first; `delay` seconds each way."""
        self.delay = delay
        self._set(Way.OPEN)

    def hang(self) -> None:
        """Accept every connection; nothing arrives and nothing is answered."""
        self._set(Way.HANG)

    def mute(self) -> None:
        """Let requests arrive at the server, and no answers come back."""
        self._set(Way.MUTE)

    def drip(self, every: float = 0.02) -> None:
        """Let answers arrive one byte at a time, so many seconds apart."""
        self.every = every
        self._set(Way.DRIP)

    def refuse(self) -> None:
        """Listen no more on the port; reset connections."""
        self._set(Way.REFUSE)

    def cut(self) -> None:
        """Reset the connections of this moment; bytes on the way are lost."""
        self._order(self._drop_all)

    def connections(self) -> int:
        """Return how many clients are connected now."""
        return sum(not pipe.answers for pipe in list(self._pipes.values()))

    def close(self) -> None:
        """Free the port and reset all connections."""
        if self._thread.is_alive():
            self._orders.put(None)
            with contextlib.suppress(OSError):  # its thread may just have ended
                self._bell.send(b"!")
            self._thread.join(_ANSWERED_WITHIN)

    def _set(self, way: Way) -> None:
        self._order(lambda: self._become(way))

    def _order(self, order: Callable[[], None]) -> None:
        """Have the proxy's own thread carry out the order; wait for it."""
        done = threading.Event()

        def carried_out() -> None:
            order()
            done.set()

        self._orders.put(carried_out)
        self._bell.send(b"!")
        if not done.wait(_ANSWERED_WITHIN):
            msg = f"the proxy on port {self.port} is closed"
            raise RuntimeError(msg)

    # everything below runs on the proxy's thread

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, self.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        return listener

    def _become(self, way: Way) -> None:
        if way is Way.REFUSE and self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
            self._drop_all()
        if way is not Way.REFUSE and self._listener is None:
            self._listener = self._listen()
        self._way = way

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select(self._until_next()):
                if key.fileobj is self._ear:
                    with contextlib.suppress(BlockingIOError):
                        self._ear.recv(_CHUNK)
                elif key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._take(key.fileobj)
            while not self._orders.empty():
                order = self._orders.get()
                if order is None:
                    self._end()
                    return
                order()
            self._pass_on()

    def _until_next(self) -> float | None:
        waits = [
            pipe.waiting[0][0] for pipe in self._pipes.values() if self._flows(pipe)
        ]
        return max(0.0, min(waits) - SYSTEM.monotonic()) if waits else None

    def _flows(self, pipe: _Pipe) -> bool:
        """Say whether bytes wait in the pipe that may pass."""
        held = self._way is Way.HANG or (self._way is Way.MUTE and pipe.answers)
        return bool(pipe.waiting) and not held

    def _accept(self) -> None:
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(self.target, _ANSWERED_WITHIN)
            except OSError:
                self._reset(client)
                return
            for source, sink, answers in (
                (client, server, False),
                (server, client, True),
            ):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                source.settimeout(_ANSWERED_WITHIN)
                self._pipes[source] = _Pipe(source, sink, answers=answers)
                self._selector.register(source, selectors.EVENT_READ)

    def _take(self, source: socket.socket) -> None:
        pipe = self._pipes.get(source)
        if pipe is None:
            return
        try:
            data = source.recv(_CHUNK)
        except OSError:
            self._drop(pipe)
            return
        pipe.waiting.append((SYSTEM.monotonic() + self.delay, data))
        if not data:  # the goodbye queues behind the bytes before it
            self._selector.unregister(source)

    def _pass_on(self) -> None:
        now = SYSTEM.monotonic()
        for pipe in list(self._pipes.values()):
            while self._flows(pipe) and pipe.waiting[0][0] <= now:
                _, data = pipe.waiting.popleft()
                if self._way is Way.DRIP and pipe.answers and len(data) > 1:
                    pipe.waiting.appendleft((now + self.every, data[1:]))
                    data = data[:1]
                try:
                    if data:
                        pipe.sink.sendall(data)
                    else:
                        pipe.sink.shutdown(socket.SHUT_WR)
                        pipe.ended = True
                except OSError:
                    self._drop(pipe)
                    break
            other = self._pipes.get(pipe.sink)
            if pipe.ended and other is not None and other.ended:
                self._drop(pipe, politely=True)

    def _drop(self, pipe: _Pipe, *, politely: bool = False) -> None:
        for end in (pipe.source, pipe.sink):
            if self._pipes.pop(end, None) is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(end)
                if politely:  # a reset would throw away what the client has not read
                    end.close()
                else:
                    self._reset(end)

    def _drop_all(self) -> None:
        for pipe in list(self._pipes.values()):
            self._drop(pipe)

    @staticmethod
    def _reset(end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.close()

    def _end(self) -> None:
        self._drop_all()
        if self._listener is not None:
            self._listener.close()
        self._selector.close()
        self._bell.close()
        self._ear.close()
