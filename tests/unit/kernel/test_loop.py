"""The loop: it never exits by itself, and always when stopped."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, SystemClock
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    SchemaOutdated,
)
from celery_pecker.kernel.loop import Loop

SOON = Backoff(first=0.001, most=0.002)
FAR = 60.0
"""Seconds that no test waits: it would be over its time."""


class Steps:
    """Answers in turn: seconds to sleep, or an error; the last one again and again."""

    def __init__(self, *answers: float | BaseException) -> None:
        self.answers = list(answers)
        self.taken: Queue[float] = Queue()
        self.threads: set[int] = set()

    def __call__(self) -> float:
        """Take the next."""
        self.threads.add(threading.get_ident())
        self.taken.put(SYSTEM.monotonic())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def await_steps(self, count: int) -> None:
        """So many more steps were taken."""
        for _ in range(count):
            self.taken.get(timeout=30.0)


@pytest.fixture
def start() -> Iterator[Callable[..., Loop]]:
    """Give a way to start loops that end with the test."""
    loops: list[Loop] = []

    def make(
        step: Callable[[], float],
        leave: Callable[[], None] = lambda: None,
        *,
        may_end: bool = False,
    ) -> Loop:
        loop = Loop(
            step,
            name="test",
            clock=SYSTEM,
            leave=leave,
            backoff=SOON,
            may_end=may_end,
        )
        loops.append(loop)
        loop.start()
        return loop

    yield make
    for loop in loops:
        loop.stop()
    for loop in loops:
        assert loop.join(30.0)


def test_it_steps_at_once_and_sleeps_as_long_as_the_step_says(
    start: Callable[..., Loop],
) -> None:
    """On one thread of its own, which does not keep the process alive."""
    steps = Steps(0.0, 0.05, FAR)
    start(steps)
    moments = [steps.taken.get(timeout=30.0) for _ in range(3)]
    assert moments[2] - moments[1] >= 0.05
    assert threading.get_ident() not in steps.threads
    assert len(steps.threads) == 1
    [thread] = [one for one in threading.enumerate() if one.ident in steps.threads]
    assert thread.daemon


def test_wake_ends_the_sleep(start: Callable[..., Loop]) -> None:
    """One step more, at once."""
    steps = Steps(FAR)
    loop = start(steps)
    steps.await_steps(1)
    loop.wake()
    steps.await_steps(1)
    assert not loop.join(0.0)


def test_stop_lets_the_step_in_flight_end_and_then_leaves(
    start: Callable[..., Loop],
) -> None:
    """What was claimed is published; then the connections are dropped, once."""
    inside, go_on, left = threading.Event(), threading.Event(), []

    def step() -> float:
        inside.set()
        assert go_on.wait(30.0)
        left.append("step")
        return FAR

    loop = start(step, lambda: left.append("leave"))
    assert inside.wait(30.0)
    loop.stop()
    assert loop.stopping
    assert not loop.join(0.05)
    go_on.set()
    assert loop.join(30.0)
    assert left == ["step", "leave"]


def test_stop_during_the_sleep_takes_no_further_step(
    start: Callable[..., Loop],
) -> None:
    """It wakes up only to leave."""
    steps = Steps(FAR)
    loop = start(steps)
    steps.await_steps(1)
    loop.stop()
    loop.stop()
    assert loop.join(30.0)
    assert steps.taken.empty()


def test_stop_and_wake_are_safe_in_a_signal_handler(start: Callable[..., Loop]) -> None:
    """Also if the signal comes while the main thread is inside the same call.

    `Event.set` would dead-lock there, on its own condition.
    """
    steps = Steps(FAR)
    loop = start(steps)
    told: list[int] = []

    def handle(number: int, _frame: object) -> None:
        told.append(number)
        loop.wake()
        if len(told) == 200:
            loop.stop()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        while len(told) < 200:
            os.kill(os.getpid(), signal.SIGUSR1)
            loop.wake()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert loop.join(30.0)


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        DatabaseUnavailable("away"),
        KeyError("entry"),
        OSError(9, "bad file"),
    ],
)
def test_whatever_a_step_raises_the_loop_goes_on(
    start: Callable[..., Loop], error: Exception
) -> None:
    """It never exits by itself (I12)."""
    steps = Steps(error, error, error, FAR)
    loop = start(steps)
    steps.await_steps(4)
    assert loop.failure is None
    assert not loop.join(0.0)


def test_it_backs_off_further_with_each_failure_and_begins_anew_after_a_good_step() -> (
    None
):
    """Seconds asked for, without waiting for them."""
    steps = Steps(OSError(), OSError(), OSError(), 7.0, OSError(), 0.0)
    backoff = Backoff(first=1.0, most=100.0, spread=0.0)
    loop = Loop(steps, name="test", clock=SYSTEM, backoff=backoff)
    assert [loop.run_once() for _ in range(5)] == [1.0, 2.0, 4.0, 7.0, 1.0]


def test_no_wake_ends_a_back_off() -> None:
    """A loop that fails and is woken at each commit runs no more often (I12)."""
    instants = iter([0.0, 0.0, 10.0, 20.0, 29.0, 30.0])
    slept: list[float] = []

    class Hurried:
        def sleep(self, seconds: float) -> bool:
            slept.append(seconds)
            return True

    class Instants(SystemClock):
        def monotonic(self) -> float:
            return next(instants)

    steps = Steps(OSError(), 7.0)
    backoff = Backoff(first=30.0, most=30.0, spread=0.0)
    loop = Loop(steps, name="test", clock=Instants(), backoff=backoff)
    loop._wakeup = Hurried()  # type: ignore[assignment]  # woken at every sleep
    assert loop.run_once() == 30.0
    loop._sleep(30.0)
    assert slept == [30.0, 20.0, 10.0, 1.0]


def test_stop_ends_a_back_off(start: Callable[..., Loop]) -> None:
    """A process that ends does not wait for a database that is away."""
    steps = Steps(OSError())
    loop = Loop(steps, name="test", clock=SYSTEM, backoff=Backoff(first=FAR, most=FAR))
    loop.start()
    steps.await_steps(1)
    loop.wake()
    loop.stop()
    assert loop.join(30.0)
    assert steps.taken.empty()


def test_a_failure_is_logged_at_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each kind for itself, with a count; a good step between resets nothing."""
    now = [0.0]

    class Instants(SystemClock):
        def monotonic(self) -> float:
            return now[0]

    steps = Steps(
        OSError("one"), 0.0, OSError("two"), KeyError("key"), OSError("three")
    )
    loop = Loop(steps, name="test", clock=Instants(), backoff=SOON)
    for _ in range(4):
        loop.run_once()
    now[0] = 60.0
    loop.run_once()
    lines = [one.getMessage() for one in caplog.records]
    assert ["one" in lines[0], "key" in lines[1], "three" in lines[2]] == [True] * 3
    assert len(lines) == 3
    assert lines[2].endswith("(1 more since the last line)")


def test_another_error_is_logged_although_one_of_its_type_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A dead lock within the minute after an outage is no part of that outage."""
    refused = DatabaseUnavailable("no answer")
    refused.__cause__ = OSError("refused")
    locked = DatabaseUnavailable("no answer")
    locked.__cause__ = ValueError("dead lock")
    steps = Steps(refused, locked, refused)
    loop = Loop(steps, name="test", clock=SYSTEM, backoff=SOON)
    for _ in range(3):
        loop.run_once()
    assert len(caplog.records) == 2


def test_an_outage_is_one_line_and_a_bug_is_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A database away for an hour must not fill the disk."""
    away = DatabaseUnavailable("celery_pecker:claim_due got no answer")
    steps = Steps(away, ZeroDivisionError("a bug"), 0.0)
    loop = Loop(steps, name="test", clock=SYSTEM, backoff=SOON)
    with caplog.at_level(logging.DEBUG, logger="celery_pecker.kernel.loop"):
        loop.run_once()
        loop.run_once()
    outage, bug = caplog.records
    assert (outage.levelno, outage.exc_info) == (logging.WARNING, None)
    assert "claim_due got no answer" in outage.getMessage()
    assert bug.levelno == logging.ERROR
    assert bug.exc_info is not None
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("kind", [Misconfigured, SchemaOutdated])
def test_bad_configuration_before_the_first_good_step_ends_it(
    start: Callable[..., Loop], kind: type[Misconfigured]
) -> None:
    """For the owner of the process to report; an outage before it changes nothing."""
    wrong, left = kind("no such schema"), threading.Event()
    steps = Steps(DatabaseUnavailable(), wrong)
    loop = start(steps, left.set, may_end=True)
    assert loop.join(30.0)
    assert loop.failure is wrong
    assert left.is_set()
    assert loop.turned is None


def test_bad_configuration_does_not_end_a_loop_of_which_nobody_would_tell(
    start: Callable[..., Loop], caplog: pytest.LogCaptureFixture
) -> None:
    """It says what is wrong, and goes on once that is mended."""
    steps = Steps(Misconfigured("a right is missing"), FAR)
    loop = start(steps)
    steps.await_steps(2)
    assert loop.failure is None
    assert not loop.join(0.0)
    [line] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "a right is missing" in line.getMessage()


def test_bad_configuration_after_a_good_step_does_not(
    start: Callable[..., Loop],
) -> None:
    """Somebody dropped a table: it may come back, and the process is needed then."""
    steps = Steps(0.0, Misconfigured("gone"), Misconfigured("gone"), FAR)
    loop = start(steps, may_end=True)
    steps.await_steps(4)
    assert loop.failure is None
    assert not loop.join(0.0)


def test_it_says_when_it_last_turned_well() -> None:
    """For a probe: a loop that only fails is not alive."""
    steps = Steps(OSError(), 0.0, OSError())
    loop = Loop(steps, name="test", clock=SYSTEM, backoff=SOON)
    turned = []
    for _ in range(3):
        loop.run_once()
        turned.append(loop.turned)
    assert turned[0] is None
    assert turned[1] is not None
    assert turned[2] == turned[1]


def test_the_end_of_the_process_is_not_caught() -> None:
    """`SystemExit` inside a step goes through, and what is open is closed."""
    left: list[str] = []
    loop = Loop(
        Steps(SystemExit()), name="test", clock=SYSTEM, leave=lambda: left.append("x")
    )
    with pytest.raises(SystemExit):
        loop.run()
    assert left == ["x"]
    assert loop.join(0.0)
