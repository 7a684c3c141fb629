"""Code that asks nobody is ended all the same, where it can be."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import pytest

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.deadline.budget import current
from celery_pecker.kernel.clock import monotonic

BUDGET = 0.05
LONG = 20.0
SOON = 10.0
"""Far above what is promised and far below what the code would wait."""


def run(code: Callable[[], None], kind: str = "solo") -> None:
    """Run the code as a pool would."""
    with deadline.within(BUDGET), deadline.enforce(kind):
        code()


def sleeps() -> None:
    """Wait in the kernel."""
    queue.SimpleQueue[None]().get(timeout=LONG)


def spins(seconds: float = LONG) -> None:
    """Wait for nothing and ask nobody."""
    end = monotonic() + seconds
    while monotonic() < end:
        pass


def reads() -> None:
    """Wait for a server that never answers."""
    ours, theirs = os.pipe()
    try:
        os.read(ours, 1)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("kind", ["prefork", "solo"])
@pytest.mark.parametrize("code", [sleeps, spins, reads])
def test_a_main_thread_is_ended_wherever_it_is(
    kind: str, code: Callable[[], None]
) -> None:
    """By a signal; PEP 475 begins the call again unless its handler raises."""
    began = monotonic()
    with pytest.raises(DeadlineExceeded):
        run(code, kind)
    assert BUDGET <= monotonic() - began < SOON


def test_a_broad_except_does_not_swallow_it_for_good() -> None:
    """It is struck again as soon as it goes on."""
    swallowed = 0
    began = monotonic()
    with deadline.within(BUDGET), deadline.enforce("solo"):
        while swallowed < 3:
            try:
                sleeps()
            except Exception:  # noqa: BLE001 — what users write
                swallowed += 1
    assert monotonic() - began < SOON


def test_an_endless_loop_that_swallows_everything_is_ended() -> None:
    """It tries again for ever; what leaves the run is DeadlineExceeded all the same."""

    def stubborn() -> None:
        while monotonic() < began + SOON:
            with suppress(Exception):
                sleeps()

    began = monotonic()
    with (
        pytest.raises(DeadlineExceeded) as caught,
        deadline.within(0.05),
        deadline.enforce("solo"),
    ):
        stubborn()
    assert monotonic() - began < SOON
    assert "since" in str(caught.value)


def test_a_clean_up_is_not_struck_in_its_middle() -> None:
    """While the first strike is handled there is no second, for a while."""
    ended = []

    def code() -> None:
        try:
            sleeps()
        finally:
            spins(0.1)  # several times the pause between two strikes
            ended.append(True)

    with pytest.raises(DeadlineExceeded):
        run(code)
    assert ended


def test_the_clean_up_after_a_client_is_not_struck_either() -> None:
    """A client that ended its wait by itself has raised what a strike would raise."""
    ended = []

    def waits() -> None:
        budget = current.get()
        assert budget is not None
        budget.waiting += 1
        try:
            spins(budget.at - monotonic())
            raise budget.exceeded()
        finally:
            budget.waiting -= 1

    def code() -> None:
        try:
            waits()
        finally:
            spins(0.1)
            ended.append(True)

    with pytest.raises(DeadlineExceeded):
        run(code)
    assert ended


def test_a_clean_up_that_hangs_is_struck_again() -> None:
    """Its patience is bounded."""

    def code() -> None:
        try:
            sleeps()
        finally:
            sleeps()

    began = monotonic()
    with pytest.raises(DeadlineExceeded):
        run(code)
    assert monotonic() - began < SOON


def test_an_inner_deadline_and_a_shield_are_kept_too() -> None:
    """The timer follows the deadline in force."""
    with deadline.within(LONG), deadline.enforce("solo"):
        with pytest.raises(DeadlineExceeded), deadline.within(BUDGET):
            sleeps()
        assert (deadline.remaining() or 0) > SOON
    passed = []

    def code() -> None:
        with deadline.shield(1.0):
            spins(0.1)
            passed.append(True)
        sleeps()

    with pytest.raises(DeadlineExceeded):
        run(code)
    assert passed


def test_the_timer_and_its_handler_are_given_back() -> None:
    """Whoever had an alarm before has it again, less the time that passed."""
    rung: list[int] = []

    def theirs(number: int, frame: FrameType | None) -> None:
        rung.append(number)

    before = signal.signal(signal.SIGALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_REAL, LONG, 7.0)
        with deadline.within(BUDGET), deadline.enforce("solo"):
            assert signal.getsignal(signal.SIGALRM) is not theirs
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert LONG - SOON < left <= LONG
        assert interval == 7.0
        assert signal.getsignal(signal.SIGALRM) is theirs
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with deadline.within(LONG), deadline.enforce("solo"):
            end = monotonic() + SOON
            while not rung and monotonic() < end:
                pass
        assert rung == [signal.SIGALRM]
        signal.setitimer(signal.ITIMER_REAL, 0)
        with deadline.within(LONG), deadline.enforce("solo"):
            pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_run_in_a_run_has_one_timer() -> None:
    """A task that is called by a task, in the same process."""
    with deadline.within(LONG), deadline.enforce("solo"):
        with pytest.raises(DeadlineExceeded):
            run(sleeps)
        with pytest.raises(DeadlineExceeded), deadline.within(BUDGET):
            sleeps()


RINGING = """
import itertools, signal
from celery_pecker import deadline
struck = 0
for _ in range(200):
    try:
        with deadline.within(0), deadline.enforce("solo"):
            for _ in itertools.count():
                with deadline.within(1), deadline.shield(0):
                    pass
    except deadline.DeadlineExceeded:
        struck += 1
    assert deadline.remaining() is None
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
assert struck == 200, struck
"""


def test_a_strike_never_leaves_a_deadline_behind() -> None:
    """Blocks are entered and left while the alarm rings all the time.

    In a process of its own: a strike that goes astray would end the test run.
    """
    done = subprocess.run(
        [sys.executable, "-c", RINGING],
        timeout=LONG,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def in_thread(code: Callable[[], None]) -> BaseException | None:
    """Give what the code raises in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            code()
        except DeadlineExceeded as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()
    return raised[0] if raised else None


def test_a_thread_can_be_struck_between_two_bytecodes() -> None:
    """Only where that was asked for."""

    def asked() -> None:
        with deadline.within(BUDGET), deadline.enforce("threads", interrupt=True):
            spins()

    def stubborn() -> None:
        with deadline.within(BUDGET), deadline.enforce("threads", interrupt=True):
            for _ in range(3):
                try:
                    spins()
                except DeadlineExceeded:
                    continue
            deadline.check()

    def inner() -> None:
        with deadline.within(LONG), deadline.enforce("threads", interrupt=True):
            try:
                with deadline.within(BUDGET):
                    spins()
            except DeadlineExceeded:
                deadline.check()
                raise

    def not_asked() -> None:
        with deadline.within(0), deadline.enforce("threads"):
            spins(0.05)

    assert in_thread(asked)
    assert in_thread(stubborn)
    assert in_thread(inner)
    assert in_thread(not_asked) is None


def test_a_thread_without_a_signal_is_left_alone() -> None:
    """The solo pool's deadline in a thread is cooperative; nothing is set."""

    def code() -> None:
        with deadline.within(0), deadline.enforce("solo"):
            spins(0.05)

    assert in_thread(code) is None
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


STUCK = """
import signal
from celery_pecker import deadline
signal.signal(signal.SIGALRM, signal.SIG_IGN)
with deadline.within(0.05), deadline.enforce("prefork", hard=0.1):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.sigwait([signal.SIGUSR1])
"""

GREEN = """
from gevent import monkey; monkey.patch_all()
import time, gevent
from celery_pecker import deadline
def run(code):
    began = time.monotonic()
    try:
        with deadline.within(0.1), deadline.enforce("gevent"):
            code()
    except deadline.DeadlineExceeded:
        return time.monotonic() - began
    return None
def sleeps():
    time.sleep(30)
def stubborn():
    for _ in range(4):
        try:
            time.sleep(30)
        except Exception:
            pass
    deadline.check()
def inner():
    with deadline.within(20):
        with deadline.within(0.05):
            time.sleep(30)
def shielded():
    with deadline.shield(20):
        time.sleep(0.2)
        done.append(1)
    time.sleep(30)
def cleans():
    try:
        time.sleep(30)
    finally:
        time.sleep(0.1)
        done.append(2)
done = []
codes = [sleeps, stubborn, inner, shielded, cleans]
jobs = [gevent.spawn(run, code) for code in codes]
gevent.joinall(jobs)
took = [job.value for job in jobs]
assert all(value is not None and value < 20 for value in took), took
assert sorted(done) == [1, 2], done
assert deadline.remaining() is None
with deadline.within(900):
    inherited = gevent.spawn(deadline.wrap(deadline.remaining))
    inherited.join()
assert 800 < inherited.value <= 900
print("well")
"""


def test_a_process_that_cannot_be_struck_is_killed() -> None:
    """A grace after its deadline, if that was asked for."""
    done = subprocess.run(
        [sys.executable, "-c", STUCK], timeout=LONG, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert b"has not ended 0.1 s after its deadline" in done.stderr


def test_who_ends_in_time_is_not_killed() -> None:
    """The watch goes with the block."""
    with deadline.within(0.01), deadline.enforce("threads"):
        pass
    with deadline.within(LONG), deadline.enforce("prefork", hard=0.01):
        pass
    code = STUCK.partition("    signal.pthread")[0].replace("0.05", "0.2")
    code += "    pass\nimport threading\nthreading.Event().wait(0.6)"
    done = subprocess.run([sys.executable, "-c", code], timeout=LONG, check=False)
    assert done.returncode == 0


def test_greenlets_are_struck_by_their_hub() -> None:
    """In a process of its own: gevent patches everything."""
    done = subprocess.run(
        [sys.executable, "-c", GREEN],
        timeout=LONG,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "well\n", done.stderr
