"""A raw consumer: when did each message lie on the queue, by the host's clock?

A process of its own, which does nothing while it waits (BRPOP, a push on RabbitMQ)
and takes what is there by the thousand. A message's stamp is the moment at which the
first bytes of the answer that held it arrived; nothing is decoded before, and
nothing but the two marks that are looked for: the entry and the due instant. What all
this adds to a figure is measured too: see rows/consumer.py.

    URL QUEUE FILE   (tests.told)
"""

from __future__ import annotations

import re
import select
import signal
import socket
import time
from array import array
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import amqp
import numpy as np

from tests.told import told

TAKE = 1000
IDLE = 0.5
READ = 1 << 20
NIL = (b"*-1", b"$-1")
JSON_MARKS = (rb'"argsrepr": "\[(\d+)\]"', rb'"due_at": "([^"]+)"')
# AMQP tables: a name with its length, S, and a text with its length
AMQP_MARKS = (
    rb"\x08argsreprS\x00\x00\x00.\[(\d+)\]",
    rb"\x06due_atS\x00\x00\x00\x20([-+:.0-9T]{32})",
)
Chunk = tuple[float, bytes]


class Marks:
    """Finds a mark in a stream that comes in pieces."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = re.compile(pattern, re.DOTALL)
        self._rest = b""

    def find(self, piece: bytes) -> list[bytes]:
        """Return the marks that end in this piece."""
        text = self._rest + piece
        end, found = 0, []
        for match in self._pattern.finditer(text):
            found.append(match[1])
            end = match.end()
        # a mark is never longer than this
        self._rest = text[max(end, len(text) - 64) :]
        return found


class RedisTap:
    """Takes a list's messages as soon as they are there."""

    marks = JSON_MARKS

    def __init__(self, url: str, queue: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection(
            (parts.hostname or "127.0.0.1", parts.port or 6379)
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.password:
            user = [unquote(parts.username)] if parts.username else []
            self._ask(b"AUTH", *(w.encode() for w in (*user, unquote(parts.password))))
        self._ask(b"SELECT", (parts.path.strip("/") or "0").encode())
        self._queue = queue.encode()

    def chunks(self) -> Iterator[Chunk | None]:
        """Give what came; None where there is time for other things."""
        while True:
            self._send(b"BRPOP", self._queue, str(IDLE).encode())
            while not select.select([self._socket], [], [], 0)[0]:
                yield None
                select.select([self._socket], [], [], 0.01)
            stamp, answer = self._answer()
            while not answer.startswith(NIL):
                yield stamp, answer
                stamp, answer = self._ask(b"RPOP", self._queue, b"%d" % TAKE)

    def _ask(self, *words: bytes) -> Chunk:
        self._send(*words)
        return self._answer()

    def _send(self, *words: bytes) -> None:
        text = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self._socket.sendall(b"*%d\r\n%s" % (len(words), text))

    def _answer(self) -> Chunk:
        piece = self._socket.recv(READ)
        stamp = time.time()
        answer = bytearray(piece)
        while (missing := _missing(answer)) or not piece:
            if not piece:
                raise ConnectionError
            piece = self._socket.recv(max(missing, READ))
            answer += piece
        return stamp, bytes(answer)


def _missing(answer: bytearray) -> int:
    """How many bytes of a Redis answer are still to come, at least."""
    at, items = 0, 1
    while items:
        line = answer.find(b"\r\n", at)
        if line < 0:
            return 1
        kind, number = answer[at : at + 1], answer[at + 1 : line]
        at = line + 2
        items -= 1
        if kind == b"*":
            items += max(int(number), 0)
        elif kind == b"$" and number != b"-1":
            at += int(number) + 2
            if at > len(answer):
                return at - len(answer)
    return 0


class RabbitTap:
    """Reads the stream that RabbitMQ pushes, without decoding its frames."""

    marks = AMQP_MARKS

    def __init__(self, url: str, queue: str) -> None:
        parts = urlsplit(url)
        self._connection = amqp.Connection(
            f"{parts.hostname}:{parts.port or 5672}",
            userid=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            virtual_host=unquote(parts.path[1:]) or "/",
            heartbeat=0,
        )
        self._connection.connect()
        self._connection.channel().basic_consume(queue, no_ack=True)

    def chunks(self) -> Iterator[Chunk | None]:
        """Give what came; None where there is time for other things."""
        wire = self._connection.transport.sock
        wire.settimeout(None)
        while True:
            while not select.select([wire], [], [], 0)[0]:
                yield None
                select.select([wire], [], [], 0.01)
            piece = wire.recv(READ)
            stamp = time.time()
            if not piece:
                raise ConnectionError
            yield stamp, piece


class Log:
    """What arrived and when, in columns."""

    def __init__(self, marks: tuple[bytes, bytes]) -> None:
        self._entry_marks, self._due_marks = map(Marks, marks)
        self._waiting: deque[Chunk] = deque()
        self.entries, self.arrived, self.due = array("I"), array("d"), array("d")

    def keep(self, chunk: Chunk) -> None:
        """The chunk will be looked into when there is time."""
        self._waiting.append(chunk)

    def read_one(self) -> None:
        """One chunk that waits, if any, was looked into."""
        if self._waiting:
            stamp, text = self._waiting.popleft()
            entries = [int(mark) for mark in self._entry_marks.find(text)]
            self.entries.extend(entries)
            self.arrived.extend([stamp] * len(entries))
            self.due.extend(
                datetime.fromisoformat(mark.decode()).timestamp()
                for mark in self._due_marks.find(text)
            )

    def save(self, path: Path) -> None:
        """All that was kept is in the file."""
        while self._waiting:
            self.read_one()
        if len(self.due) not in {0, len(self.arrived)}:
            msg = f"{len(self.due)} due instants in {len(self.arrived)} messages"
            raise ValueError(msg)
        np.savez(path, entries=self.entries, arrived=self.arrived, due=self.due)


def main(url: str, queue: str, path: str) -> None:
    """Consume until told to stop."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    tap = RedisTap(url, queue) if url.startswith("redis") else RabbitTap(url, queue)
    log = Log(tap.marks)
    print("consumer: ready", flush=True)
    first = True
    for chunk in tap.chunks():
        if chunk is not None:
            log.keep(chunk)
            if first:
                print("consumer: first message", flush=True)
                first = False
        else:
            log.read_one()
            if told:
                break
    log.save(Path(path))


if __name__ == "__main__":
    main(*told())
