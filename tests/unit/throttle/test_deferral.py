"""A signal waits for the end of a write."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from amqp.transport import TCPTransport

from throttle.worker.brokers.amqp import WRITING, read_whole_frames, signals_deferred


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Give the signals whose handlers have run."""
    numbers: list[int] = []
    before = {number: signal.getsignal(number) for number in WRITING}

    def handler(number: int, frame: Any) -> None:
        del frame
        numbers.append(number)

    for number in WRITING:
        signal.signal(number, handler)
    yield numbers
    for number, one in before.items():
        signal.signal(number, one)


@pytest.mark.parametrize("number", WRITING)
def test_its_handler_runs_when_the_write_has_ended(
    came: list[int], number: signal.Signals
) -> None:
    """Not within, where it would wait for the write that it interrupts."""
    with signals_deferred():
        signal.raise_signal(number)
        assert came == []
    assert came == [number]
    signal.raise_signal(number)
    assert came == [number, number]


def test_it_runs_after_a_write_that_failed_too(came: list[int]) -> None:
    """What the write raised goes on."""

    def write() -> None:
        with signals_deferred():
            signal.raise_signal(signal.SIGTERM)
            message = "the connection is gone"
            raise OSError(message)

    with pytest.raises(OSError, match="gone"):
        write()
    assert came == [signal.SIGTERM]


def test_a_signal_that_is_ignored_stays_so() -> None:
    """Only handlers of Python's are deferred."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with signals_deferred():
            signal.raise_signal(signal.SIGQUIT)
        assert signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGQUIT, before)


@pytest.mark.parametrize("number", WRITING)
def test_a_handler_that_reads_too_finds_the_next_frame(number: signal.Signals) -> None:
    """And not the second half of one: a cold shutdown waits for an answer."""
    seen: list[bytes] = []
    ours, theirs = socket.socketpair()
    ours.settimeout(5.0)
    transport: Any = TCPTransport("127.0.0.1:1")
    transport.sock = ours
    transport._setup_transport()
    read, interrupted = transport._read, list[int]()

    def interrupting(size: int, initial: bool = False) -> bytes:
        octets: bytes = read(size, initial)
        if not interrupted:
            interrupted.append(size)
            # The header is read; between the two steps a handler may run.
            transport.after_header = lambda: signal.raise_signal(number)
        return octets

    def raised(size: int, initial: bool = False) -> bytes:
        if not initial and (after := vars(transport).pop("after_header", None)):
            after()
        return interrupting(size, initial)

    transport._read = raised
    connection: Any = SimpleNamespace(transport=transport)
    connection.on_inbound_frame = lambda frame: seen.append(frame[2])
    channel = SimpleNamespace(dispatch_method=None)
    read_whole_frames(connection, channel)

    def take() -> None:
        connection.on_inbound_frame(transport.read_frame())

    before = signal.signal(number, lambda *_: take())
    try:
        for payload in (b"first", b"second"):
            theirs.sendall(struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce")
        take()
        assert seen == [b"first", b"second"]
    finally:
        signal.signal(number, before)
        ours.close()
        theirs.close()
