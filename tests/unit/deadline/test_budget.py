"""What code may ask of a deadline, and how blocks change it."""

from __future__ import annotations

import math
import pickle
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.deadline.clients.sockets import bound
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.runs import guard as inheritance


def left() -> float:
    """Give what is left, of a deadline that there is."""
    seconds = deadline.remaining()
    assert seconds is not None
    return seconds


def test_without_a_deadline_nothing_is_bounded() -> None:
    """It costs nothing to ask."""
    assert deadline.remaining() is None
    assert deadline.at() is None
    assert deadline.timeout() is None
    assert deadline.timeout(5) == 5
    deadline.check()


def test_the_earlier_deadline_wins_and_the_outer_comes_back() -> None:
    """An inner block takes its share, and can never have more than there is."""
    with deadline.within(10):
        outer = deadline.at()
        with deadline.within(60):
            assert deadline.at() == outer
        with deadline.within(timedelta(seconds=2)):
            assert 1.5 < left() <= 2
        with deadline.within(None):
            assert deadline.at() == outer
        assert deadline.at() == outer
    assert deadline.remaining() is None


def test_a_deadline_can_have_begun_before() -> None:
    """A run's time counts from before its claim was sent."""
    with deadline.until(monotonic() - 0.5), pytest.raises(DeadlineExceeded):
        deadline.check()


def test_a_timeout_is_the_default_or_what_is_left() -> None:
    """And never 0, which many libraries take for `at once` or for ever."""
    with deadline.within(10):
        assert deadline.timeout(5) == 5
        assert 9 < (deadline.timeout(60) or 0) <= 10
        assert 9 < (deadline.timeout() or 0) <= 10
    with deadline.within(0.0005):
        try:
            assert deadline.timeout() == 0.001
        except DeadlineExceeded:
            assert left() == 0


def test_once_over_it_is_over_each_time() -> None:
    """A broad `except` cannot swallow it for good."""
    with deadline.within(0, "the run of 'tick'") as block:
        for _ in range(3):
            with pytest.raises(DeadlineExceeded, match="of the run of 'tick' is over"):
                deadline.check()
        with pytest.raises(DeadlineExceeded):
            deadline.timeout(5)
        assert deadline.remaining() == 0.0
    assert block.expired


def test_the_error_is_a_timeout_of_ours_and_passes_through_results() -> None:
    """Celery's backends pickle it, users catch TimeoutError."""
    error = DeadlineExceeded("too late")
    assert isinstance(error, TimeoutError)
    assert isinstance(error, PeckerError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 — our own
    assert type(again) is DeadlineExceeded
    assert str(again) == "too late"


def test_a_shield_gives_a_clean_up_its_time() -> None:
    """Also when the deadline is over; never more than the outermost shield gives."""
    with deadline.within(0):
        with deadline.shield(5):
            assert 4 < left() <= 5
            deadline.check()
            with deadline.shield(60):
                assert left() <= 5
            with deadline.within(1):
                assert left() <= 1
                with deadline.shield(60):
                    assert 4 < left() <= 5
        with pytest.raises(DeadlineExceeded):
            deadline.check()
    with deadline.within(30), deadline.shield(1):
        assert left() > 25
    with deadline.shield(1):
        assert deadline.remaining() is None


def test_detached_work_has_no_deadline() -> None:
    """It is not of this run."""
    with deadline.within(0), deadline.detached():
        assert deadline.remaining() is None
        deadline.check()


def test_a_block_can_be_a_decorator() -> None:
    """Its time begins with each call."""

    @deadline.within(7)
    def asks() -> float:
        return left()

    assert 6 < asks() <= 7
    assert 6 < asks() <= 7
    assert deadline.remaining() is None


@pytest.mark.parametrize("make", [deadline.within, deadline.shield, deadline.until])
@pytest.mark.parametrize("given", [float("nan"), "5", True])
def test_what_is_no_duration_is_refused_by_name(
    make: Callable[..., object], given: object
) -> None:
    """Before anything runs under it."""
    with pytest.raises(Misconfigured, match=r"allowed is a number of seconds"):
        make(given)


@pytest.mark.parametrize("given", [math.inf, 1e300, timedelta.max, timedelta(days=40)])
def test_a_deadline_may_be_very_far(given: float | timedelta) -> None:
    """Timers, sockets, timestamps and messages take no infinity, and no 40 days."""
    told: dict[str, Any] = {}
    ours, theirs = socket.socketpair()
    theirs.send(b"x")
    with ours, theirs, deadline.within(given), deadline.enforce("solo"):
        assert left() > timedelta(days=39).total_seconds()
        inheritance._on_publish(headers=told)
        ours.settimeout(deadline.timeout())
        ours.settimeout(None)
        assert bound(ours).recv(1) == b"x"
        with deadline.shield(given), deadline.until(math.inf):
            deadline.check()
    assert told["pecker_deadline"]["left"] > timedelta(days=39).total_seconds()


def test_a_thread_inherits_nothing_by_itself_and_all_by_wrap() -> None:
    """What is left, not what was given."""
    seen: list[float | None] = []

    def asks() -> None:
        seen.append(deadline.remaining())

    with deadline.within(10):
        for target in (asks, deadline.wrap(asks)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert seen[0] is None
    assert seen[1] is not None
    assert 9 < seen[1] <= 10


def test_a_wrapped_call_that_begins_too_late_does_nothing() -> None:
    """It may have waited in a queue."""
    called: list[int] = []
    with deadline.within(0):
        late = deadline.wrap(called.append)
    with pytest.raises(DeadlineExceeded):
        late(1)
    assert not called


def test_an_executor_carries_the_deadline_and_waits_no_longer() -> None:
    """A job that asks nobody goes on in its thread; we do not wait for it."""
    go_on = threading.Event()
    queued: list[Future[float]] = []

    @deadline.within(0.05)
    def waits() -> None:
        with deadline.Executor(1) as pool:
            assert pool.submit(left).result() <= 0.05
            stuck = pool.submit(go_on.wait, 60)
            queued.append(pool.submit(left))
            with pytest.raises(DeadlineExceeded):
                stuck.exception()
            stuck.result()

    try:
        with pytest.raises(DeadlineExceeded):
            waits()
        assert queued[0].cancelled()
    finally:
        go_on.set()
    with deadline.Executor(1) as pool:
        assert pool.submit(deadline.remaining).result() is None


def test_a_job_s_own_timeout_is_no_deadline() -> None:
    """What a job raises is what its result raises."""

    def fails() -> None:
        message = "its own"
        raise TimeoutError(message)

    with deadline.within(60), deadline.Executor(1) as pool:
        job = pool.submit(fails)
        with pytest.raises(TimeoutError, match="its own"):
            job.result()
        assert isinstance(job.exception(), TimeoutError)
        with pytest.raises(TimeoutError):
            pool.submit(threading.Event().wait, 0.05).result(timeout=0.001)


def test_a_copied_context_keeps_a_run_s_deadline_to_itself() -> None:
    """Nothing of one run is left for the next, wherever the first was cut."""

    def cut() -> None:
        deadline.within(5).__enter__()

    copy_context().run(cut)
    assert deadline.remaining() is None
