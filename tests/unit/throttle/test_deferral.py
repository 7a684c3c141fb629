"""A signal waits for the end of a frame, and for no lock that its own thread holds."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from amqp.method_framing import frame_writer
from amqp.transport import TCPTransport

from throttle.admission import Accounts
from throttle.hold import Hold
from throttle.model import Limit, Target
from throttle.worker.brokers.amqp import WRITING, deferral, keep_frames_whole
from throttle.worker.held_tasks import HeldTasks


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the handlers of this process as they were."""
    before = {number: signal.getsignal(number) for number in WRITING}
    yield
    for number, one in before.items():
        signal.signal(number, one)


@pytest.fixture
def came() -> list[int]:
    """Give the signals whose handlers have run."""
    numbers: list[int] = []

    def handler(number: int, frame: Any) -> None:
        del frame
        numbers.append(number)

    for number in WRITING:
        signal.signal(number, handler)
    deferral.watch()
    return numbers


@pytest.mark.parametrize("number", WRITING)
def test_its_handler_runs_when_the_block_has_ended(
    came: list[int], number: signal.Signals
) -> None:
    """Not within, where it would wait for the write that it interrupts."""
    with deferral:
        with deferral:
            signal.raise_signal(number)
        assert came == []
    assert came == [number]
    signal.raise_signal(number)
    assert came == [number, number]


def test_it_runs_after_a_write_that_failed_too(came: list[int]) -> None:
    """What the write raised goes on."""

    def write() -> None:
        with deferral:
            signal.raise_signal(signal.SIGTERM)
            message = "the connection is gone"
            raise OSError(message)

    with pytest.raises(OSError, match="gone"):
        write()
    assert came == [signal.SIGTERM]


def test_a_signal_that_is_ignored_stays_so() -> None:
    """Only handlers of Python's are deferred."""
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    deferral.watch()
    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN


def test_what_a_handler_sets_is_deferred_too(came: list[int]) -> None:
    """A cold shutdown sets another for the second signal, each connection once more."""

    def cold(number: int, frame: Any) -> None:
        signal.signal(number, lambda *_: came.append(-number))

    signal.signal(signal.SIGQUIT, cold)
    deferral.watch()
    deferral.watch()
    signal.raise_signal(signal.SIGQUIT)
    with deferral:
        signal.raise_signal(signal.SIGQUIT)
        assert came == []
    assert came == [-signal.SIGQUIT]


class Line:
    """A connection of py-amqp whose other end is here."""

    def __init__(self) -> None:
        ours, self.there = socket.socketpair()
        ours.settimeout(5.0)
        transport: Any = TCPTransport("127.0.0.1:1")
        transport.sock = ours
        transport._setup_transport()
        self.transport = transport
        self.taken: list[bytes] = []
        self.connection: Any = SimpleNamespace(
            transport=self.transport,
            frame_max=1024,
            bytes_sent=0,
            on_inbound_frame=lambda frame: self.taken.append(frame[2]),
        )
        self.channel = SimpleNamespace(dispatch_method=None)

    def begin(self) -> None:
        """Have its frames kept whole."""
        self.connection.frame_writer = frame_writer(self.connection, self.transport)
        keep_frames_whole(self.connection, self.channel)

    def take(self) -> None:
        """Read one frame, as `blocking_read` does."""
        self.connection.on_inbound_frame(self.transport.read_frame())


@pytest.fixture
def line() -> Iterator[Line]:
    """Give a connection."""
    one = Line()
    yield one
    one.transport.sock.close()
    one.there.close()


def frame(payload: bytes) -> bytes:
    """Return a frame as it is sent."""
    return struct.pack(">BHI", 3, 0, len(payload)) + payload + b"\xce"


def once(call: Any, number: int) -> Any:
    """Have the signal come when `call` has returned for the first time."""
    left = [number]

    def interrupted(*args: Any) -> Any:
        result = call(*args)
        if left:
            signal.raise_signal(left.pop())
        return result

    return interrupted


@pytest.mark.parametrize("number", WRITING)
@pytest.mark.parametrize("part", ["header", "payload"])
def test_a_handler_that_reads_too_finds_the_next_frame(
    line: Line, number: signal.Signals, part: str
) -> None:
    """And not the rest of one: a cold shutdown waits for an answer."""
    read = line.transport._quick_recv
    line.transport._quick_recv = once(read, number) if part == "header" else read
    if part == "payload":
        whole = line.transport._read
        signals = iter((None, number))

        def read_part(*args: Any, **options: Any) -> Any:
            octets = whole(*args, **options)
            if (one := next(signals, None)) is not None:
                signal.raise_signal(one)
            return octets

        line.transport._read = read_part
    signal.signal(number, lambda *_: line.take())
    line.begin()
    line.there.sendall(frame(b"first") + frame(b"second"))
    line.take()
    assert line.taken == [b"first", b"second"]


@pytest.mark.parametrize("number", WRITING)
def test_a_handler_runs_while_a_frame_is_waited_for(
    line: Line, number: signal.Signals
) -> None:
    """A broker that says nothing does not keep a worker from ending."""
    signal.signal(number, lambda *_: line.there.sendall(frame(b"first")))
    line.begin()
    later = threading.Timer(0.05, os.kill, (os.getpid(), number))
    later.start()
    line.take()
    later.join()
    assert line.taken == [b"first"]


@pytest.mark.parametrize("number", WRITING)
def test_a_handler_that_writes_too_does_so_behind_the_frame(
    line: Line, number: signal.Signals
) -> None:
    """Any frame, of whomever: py-amqp's writer has a lock that its thread holds."""
    write, inside = line.transport.write, list[bool]()
    sent: list[bool] = []

    def interrupted(octets: Any) -> None:
        inside.append(True)
        if not sent:
            signal.raise_signal(number)
        write(octets)
        inside.pop()

    def handler(*_: object) -> None:
        sent.append(not inside)
        if not inside:  # it would wait for ever
            line.connection.frame_writer(8, 0, None, None, None)

    line.transport.write = interrupted
    signal.signal(number, handler)
    line.begin()
    line.connection.frame_writer(8, 1, None, None, None)
    assert sent == [True]
    beats = [struct.pack(">BHI", 8, channel, 0) + b"\xce" for channel in (1, 0)]
    assert line.there.recv(100) == b"".join(beats)


MAIN = Target("main")
LIMITS = {"main": Limit(database="main", operations=100.0)}


@pytest.mark.parametrize("locked", ["hold", "accounts", "arming"])
def test_a_handler_within_the_hold_may_hold_another(locked: str) -> None:
    """A cold shutdown waits for an answer, and before it comes a task."""
    hold: Hold[str] = Hold(LIMITS, max_messages=10, max_bytes=1000)
    accounts = Accounts(LIMITS)
    consumer: Any = SimpleNamespace(timer=SimpleNamespace(call_after=lambda *_: None))
    held = HeldTasks(
        consumer, Hold(LIMITS, max_messages=1, max_bytes=1), accounts, turn=lambda: None
    )
    locks = {"hold": hold._lock, "accounts": accounts._lock, "arming": held._arming}
    offered: list[bool] = []

    def handler(*_: object) -> None:
        if not locks[locked].acquire(timeout=0):
            return
        locks[locked].release()
        hold.put(MAIN, "second", size=1)
        accounts.enter(MAIN, "task", 1)
        held.arm(1.0)
        offered.append(True)

    signal.signal(signal.SIGQUIT, handler)
    with locks[locked]:
        signal.raise_signal(signal.SIGQUIT)
    assert offered == [True]
    assert hold.items() == ["second"]
