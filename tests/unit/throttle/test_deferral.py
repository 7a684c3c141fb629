"""A signal waits for the end of a write."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from throttle.worker.deferral import WRITING, signals_deferred


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
