"""Events, and who is told of them."""

from __future__ import annotations

import logging

import pytest

from celery_pecker import signals
from celery_pecker.kernel import user_code
from celery_pecker.signals import ClockStepped, Signal


def test_every_listener_is_told_in_order_until_it_is_disconnected() -> None:
    """Connected twice is told twice; disconnected once, no more."""
    signal: Signal[str] = Signal("test")
    heard: list[str] = []

    def first(event: str) -> None:
        heard.append(f"first {event}")

    def second(event: str) -> None:
        heard.append(f"second {event}")

    signal.connect(first)
    signal.connect(second)
    signal.connect(second)
    signal.send("a")
    signal.disconnect(second)
    signal.disconnect(second)
    signal.send("b")
    assert heard == ["first a", "second a", "second a", "first b"]


def test_a_listener_that_fails_is_named_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Metrics that break must not break schedules."""
    heard: list[ClockStepped] = []

    def broken(event: ClockStepped) -> None:
        raise ZeroDivisionError

    event = ClockStepped(seconds=3.5)
    signals.clock_stepped.connect(broken)
    signals.clock_stepped.connect(heard.append)
    try:
        signals.clock_stepped.send(event)
    finally:
        signals.clock_stepped.disconnect(broken)
        signals.clock_stepped.disconnect(heard.append)
    assert heard == [event]
    assert "a listener of clock_stepped failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_listener_may_disconnect_itself_while_it_is_told() -> None:
    """The event in hand still reaches the others."""
    signal: Signal[int] = Signal("test")
    heard: list[int] = []

    def once(event: int) -> None:
        signal.disconnect(once)

    signal.connect(once)
    signal.connect(heard.append)
    signal.send(1)
    signal.send(2)
    assert heard == [1, 2]


def test_foreign_code_answers_or_is_answered_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it raises is logged with its name; an interrupt by people goes through.

    SystemExit on the scheduler's thread would end the thread, not the process: beat
    would live on and send nothing.
    """
    assert user_code.call("a number", 0, int, "5") == 5
    assert user_code.call("a number", 7, int, "five") == 7
    with caplog.at_level(logging.ERROR):
        assert user_code.call("a division", None, lambda: 1 / 0) is None
    assert "a division failed" in caplog.text
    assert user_code.call("an exit", 3, end, SystemExit()) == 3
    with pytest.raises(KeyboardInterrupt):
        user_code.call("an interrupt", None, end, KeyboardInterrupt())


def end(error: BaseException) -> None:
    """Raise it."""
    raise error
