"""Items of many coroutines in few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest

from celery_pecker import deadline
from celery_pecker.batches import AsyncBatches, BatchesClosed, BatchesFull
from celery_pecker.kernel.errors import Misconfigured

LIMIT = 60.0


def awaited(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an asynchronous test in a loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), LIMIT))

    return run


class Calls:
    """A call that can be held up, and remembers what it was given."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        if not held:
            self.let_go.set()

    async def __call__(self, items: list[int]) -> Sequence[int | BaseException]:
        """Return ten times each item; 999 makes the whole batch fail, -1 its item."""
        self.batches.append(items)
        self.begun.set()
        await self.let_go.wait()
        if 999 in items:
            message = f"999 of {items}"
            raise ValueError(message)
        return [KeyError(item) if item < 0 else item * 10 for item in items]


async def begin(batches: AsyncBatches[int, int], *items: int) -> list[Any]:
    """Return tasks that have handed their items over."""
    tasks = [asyncio.create_task(batches.do(item)) for item in items]
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn
    return tasks


@awaited
async def test_each_caller_gets_the_result_of_its_own_item() -> None:
    """Two hundred callers, batches of ten at most."""
    calls = Calls()
    async with AsyncBatches(calls, most=10, wait=0.01, calls=3) as batches:
        results = await asyncio.gather(*(batches.do(item) for item in range(200)))
    assert results == [item * 10 for item in range(200)]
    assert [len(batch) for batch in calls.batches] == [10] * 20


@awaited
async def test_a_batch_that_is_not_full_is_sent_in_time() -> None:
    """A lonely caller does not wait for others for ever, nor does it with no wait."""
    for wait in (0, 0.01):
        calls = Calls()
        async with AsyncBatches(calls, wait=wait) as batches:
            assert await batches.do(1) == 10
            assert await asyncio.gather(*(batches.do(item) for item in (2, 3))) == [
                20,
                30,
            ]
        assert calls.batches == [[1], [2, 3]]


@awaited
async def test_what_comes_during_a_call_is_one_batch() -> None:
    """One call at a time, if no more are allowed."""
    calls = Calls(held=True)
    async with AsyncBatches(calls, most=4, wait=0) as batches:
        tasks = await begin(batches, 0)
        await calls.begun.wait()
        tasks += await begin(batches, 1, 2, 3, 4, 5, 6)
        assert calls.batches == [[0]]
        calls.let_go.set()
        assert await asyncio.gather(*tasks) == [0, 10, 20, 30, 40, 50, 60]
    assert calls.batches == [[0], [1, 2, 3, 4], [5, 6]]


@awaited
async def test_errors_are_those_of_their_items() -> None:
    """One in the place of a result; all of a call; each its own, one by one."""
    one = AsyncBatches(Calls(), most=2)
    results = await asyncio.gather(*await begin(one, 1, -1), return_exceptions=True)
    assert [type(each) for each in results] == [int, KeyError]
    plain = AsyncBatches(Calls(), most=2)
    results = await asyncio.gather(*await begin(plain, 1, 999), return_exceptions=True)
    assert [type(each) for each in results] == [ValueError, ValueError]
    calls = Calls()
    again = AsyncBatches(calls, most=3, one_by_one=True)
    results = await asyncio.gather(
        *await begin(again, 1, 999, 2), return_exceptions=True
    )
    assert [type(each) for each in results] == [int, ValueError, int]
    assert calls.batches == [[1, 999, 2], [1], [999], [2]]


@awaited
async def test_errors_that_futures_do_not_take_reach_their_callers() -> None:
    """StopIteration, a cancelled call, and a number of results that is wrong."""

    async def odd(items: list[int]) -> Sequence[int | BaseException]:
        if 1 in items:
            return [StopIteration(3)]
        if 2 in items:
            raise asyncio.CancelledError
        return []

    batches: AsyncBatches[int, int] = AsyncBatches(odd, wait=0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await batches.do(1)
    with pytest.raises(asyncio.CancelledError):
        await batches.do(2)
    with pytest.raises(Misconfigured, match="returned 0 for 1 items"):
        await batches.do(3)


@awaited
async def test_no_more_wait_than_may_and_that_is_counted() -> None:
    """Bounded: who is refused knows at once that nothing was sent."""
    calls = Calls(held=True)
    async with AsyncBatches(calls, wait=0, waiting=2) as batches:
        tasks = await begin(batches, 0)
        await calls.begun.wait()
        tasks += await begin(batches, 1, 2)
        with pytest.raises(BatchesFull):
            await batches.do(3)
        assert batches.refused == 1
        calls.let_go.set()
        assert await asyncio.gather(*tasks) == [0, 10, 20]


@awaited
async def test_close_sends_what_was_accepted() -> None:
    """All of it, at once; then nothing more is accepted."""
    calls = Calls()
    batches = AsyncBatches(calls, most=100, wait=60)
    tasks = await begin(batches, *range(250))
    assert await batches.close()
    assert await asyncio.gather(*tasks) == [item * 10 for item in range(250)]
    with pytest.raises(BatchesClosed):
        await batches.do(1)
    assert await batches.close()


@awaited
async def test_close_may_stop_waiting_and_says_so() -> None:
    """Those whose call has not begun are refused, the others get their result."""
    calls = Calls(held=True)
    batches = AsyncBatches(calls, most=1, wait=0)
    [begun] = await begin(batches, 0)
    await calls.begun.wait()
    [waiting] = await begin(batches, 1)
    assert not await batches.close(timeout=0)
    with pytest.raises(BatchesClosed):
        await waiting
    calls.let_go.set()
    assert await begun == 0
    assert calls.batches == [[0]]


@awaited
async def test_who_is_cancelled_has_nothing_sent() -> None:
    """And one that is cancelled while its call runs disturbs nobody."""
    calls = Calls(held=True)
    async with AsyncBatches(calls, most=2, wait=0) as batches:
        tasks = await begin(batches, 0, 1)
        await calls.begun.wait()
        tasks += await begin(batches, 2, 3)
        tasks[0].cancel()
        tasks[2].cancel()
        calls.let_go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[1], results[3]] == [10, 30]
    assert calls.batches == [[0, 1], [3]]


@awaited
async def test_a_call_has_no_deadline_of_a_caller() -> None:
    """The others of the batch have more time, or none to keep."""
    seen: list[float | None] = []

    async def ask(items: list[int]) -> list[int]:
        seen.append(deadline.remaining())
        return items

    async with AsyncBatches(ask, wait=0) as batches, deadline.within(30):
        assert await batches.do(1) == 1
    assert seen == [None]
