"""Items of many threads in few calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from textwrap import dedent

import pytest

from celery_pecker import deadline
from celery_pecker.batches import Batches, BatchesClosed, BatchesFull
from celery_pecker.kernel.errors import Misconfigured

LIMIT = 60.0


class Calls:
    """A call that can be held up, and remembers what it was given."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Event()
        self.let_go = threading.Event()
        if not held:
            self.let_go.set()

    def __call__(self, items: list[int]) -> Sequence[int | BaseException]:
        """Return ten times each item; 999 makes the whole batch fail, -1 its item."""
        self.batches.append(items)
        self.begun.set()
        assert self.let_go.wait(LIMIT)
        if 999 in items:
            message = f"999 of {items}"
            raise ValueError(message)
        return [KeyError(item) if item < 0 else item * 10 for item in items]


def held_up(batches: Batches[int, int], calls: Calls) -> Future[int]:
    """Return the future of an item whose call is under way and does not end."""
    future = batches.submit(0)
    assert calls.begun.wait(LIMIT)
    return future


def test_each_caller_gets_the_result_of_its_own_item() -> None:
    """Fifty threads, batches of ten at most."""
    calls = Calls()
    with (
        Batches(calls, most=10, wait=0.01) as batches,
        ThreadPoolExecutor(50) as pool,
    ):
        results = list(pool.map(batches.do, range(200)))
    assert results == [item * 10 for item in range(200)]
    assert sorted(item for batch in calls.batches for item in batch) == list(range(200))
    assert max(len(batch) for batch in calls.batches) <= 10


def test_what_comes_during_a_call_is_one_batch() -> None:
    """And no call has more items than may be."""
    calls = Calls(held=True)
    with Batches(calls, most=4, wait=0) as batches:
        futures = [held_up(batches, calls)]
        futures += [batches.submit(item) for item in range(1, 7)]
        calls.let_go.set()
        assert [one.result(LIMIT) for one in futures] == [0, 10, 20, 30, 40, 50, 60]
    assert calls.batches == [[0], [1, 2, 3, 4], [5, 6]]


def test_an_error_in_the_place_of_a_result_is_that_callers_alone() -> None:
    """The others have their results."""
    with Batches(Calls(), most=3, wait=60) as batches:
        futures = [batches.submit(item) for item in (1, -1, 2)]
        assert futures[0].result(LIMIT) == 10
        with pytest.raises(KeyError):
            futures[1].result(LIMIT)
        assert futures[2].result(LIMIT) == 20


def test_an_error_of_the_call_is_everybodys() -> None:
    """Unless the batch is to be sent again one by one."""
    calls = Calls()
    with Batches(calls, most=2, wait=60) as batches:
        futures = [batches.submit(item) for item in (1, 999)]
        for one in futures:
            with pytest.raises(ValueError, match=r"999 of \[1, 999\]"):
                one.result(LIMIT)
    assert calls.batches == [[1, 999]]


def test_a_failed_batch_is_sent_again_one_by_one() -> None:
    """Only the item that is wrong fails."""
    calls = Calls()
    with Batches(calls, most=3, wait=60, one_by_one=True) as batches:
        futures = [batches.submit(item) for item in (1, 999, 2)]
        assert futures[0].result(LIMIT) == 10
        with pytest.raises(ValueError, match=r"999 of \[999\]"):
            futures[1].result(LIMIT)
        assert futures[2].result(LIMIT) == 20
    assert calls.batches == [[1, 999, 2], [1], [999], [2]]


def test_a_call_that_asks_the_process_to_end_fails_its_callers() -> None:
    """Its thread goes on: nobody waits for ever."""

    def leave(items: list[int]) -> list[int]:
        if 1 in items:
            raise SystemExit
        return items

    with Batches(leave, wait=0) as batches:
        with pytest.raises(Exception, match="SystemExit"):
            batches.do(1, LIMIT)
        assert batches.do(2, LIMIT) == 2


def test_a_wrong_number_of_results_is_an_error_of_all() -> None:
    """Nobody gets a result that may be another's."""

    def one_less(items: list[int]) -> list[int]:
        return items[1:]

    with Batches(one_less, most=2, wait=60) as batches:
        for future in [batches.submit(item) for item in (1, 2)]:
            with pytest.raises(Misconfigured, match="returned 1 for 2 items"):
                future.result(LIMIT)


def test_no_more_wait_than_may_and_that_is_counted() -> None:
    """Bounded: who is refused knows at once that nothing was sent."""
    calls = Calls(held=True)
    with Batches(calls, wait=0, waiting=2) as batches:
        held_up(batches, calls)
        futures = [batches.submit(item) for item in (1, 2)]
        with pytest.raises(BatchesFull):
            batches.submit(3)
        assert batches.refused == 1
        calls.let_go.set()
        assert [one.result(LIMIT) for one in futures] == [10, 20]
    assert 3 not in [item for batch in calls.batches for item in batch]


def test_close_sends_what_was_accepted() -> None:
    """Without waiting for the rest of the time, or for more items."""
    calls = Calls()
    batches = Batches(calls, most=100, wait=60)
    futures = [batches.submit(item) for item in range(250)]
    assert batches.close()
    assert [one.result(0) for one in futures] == [item * 10 for item in range(250)]
    with pytest.raises(BatchesClosed):
        batches.do(1)
    assert batches.close()


def test_close_may_stop_waiting_and_says_so() -> None:
    """Those whose call has not begun are refused, the others get their result."""
    calls = Calls(held=True)
    batches = Batches(calls, most=1, wait=0)
    begun = held_up(batches, calls)
    waiting = batches.submit(1)
    assert not batches.close(timeout=0)
    with pytest.raises(BatchesClosed):
        waiting.result(LIMIT)
    calls.let_go.set()
    assert begun.result(LIMIT) == 0
    assert batches.close()
    assert calls.batches == [[0]]


def test_who_stops_waiting_has_nothing_sent() -> None:
    """By a timeout, or by the deadline of the run, which is then the error."""
    calls = Calls(held=True)
    with Batches(calls, wait=0) as batches:
        held_up(batches, calls)
        with pytest.raises(TimeoutError):
            batches.do(1, timeout=0.01)
        with pytest.raises(deadline.DeadlineExceeded), deadline.within(0.02):
            batches.do(2)
        calls.let_go.set()
        assert batches.do(3) == 30
    assert [item for batch in calls.batches for item in batch] == [0, 3]


def test_several_calls_at_once() -> None:
    """One that hangs does not hold up the others."""
    calls = Calls(held=True)
    with Batches(calls, most=1, wait=0, threads=2) as batches:
        first = held_up(batches, calls)
        calls.begun.clear()
        second = batches.submit(1)
        assert calls.begun.wait(LIMIT)
        calls.let_go.set()
        assert [first.result(LIMIT), second.result(LIMIT)] == [0, 10]


def run(text: str) -> str:
    """Return what a program prints; it must end well."""
    program = [sys.executable, "-c", dedent(text)]
    done = subprocess.run(program, capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_what_waits_at_the_end_of_the_process_is_sent() -> None:
    """A forgotten close() loses nothing."""
    text = """
        from celery_pecker.batches import Batches
        batches = Batches(lambda items: print(*items) or items, most=100, wait=60)
        for item in range(3):
            batches.submit(item)
    """
    assert run(text).split() == ["0", "1", "2"]


def test_a_forked_process_has_threads_of_its_own() -> None:
    """A prefork worker's child does not wait for threads that only the parent has."""
    text = """
        import os, warnings
        from celery_pecker.batches import Batches
        warnings.simplefilter("ignore")
        batches = Batches(lambda items: items, wait=0)
        assert batches.do(1, 30) == 1
        child = os.fork()
        if not child:
            print(batches.do(2, 30), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert run(text).strip() == "2"
