"""Coroutines are ended by their loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured

BUDGET = 0.05
SOON = 5.0


async def waits() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


def test_a_coroutine_ends_with_its_deadline() -> None:
    """The same error as everywhere."""

    async def main() -> None:
        async with deadline.within(BUDGET, "a query"):
            await waits()

    began = monotonic()
    with pytest.raises(DeadlineExceeded, match="of a query is over"):
        asyncio.run(main())
    assert BUDGET <= monotonic() - began < SOON


def test_tasks_of_a_coroutine_inherit_and_siblings_do_not() -> None:
    """Contexts are copied by asyncio itself."""

    async def main() -> tuple[float | None, float | None]:
        async def asks() -> float | None:
            return deadline.remaining()

        async with deadline.within(9):
            inside = await asyncio.create_task(asks())
        return inside, await asyncio.create_task(asks())

    inside, outside = asyncio.run(main())
    assert inside is not None
    assert 8 < inside <= 9
    assert outside is None


def test_an_inner_deadline_ends_the_inner_block_only() -> None:
    """And the outer one is in force again."""

    async def main() -> float | None:
        async with deadline.within(9):
            with pytest.raises(DeadlineExceeded):
                async with deadline.within(BUDGET):
                    await waits()
            return deadline.remaining()

    left = asyncio.run(main())
    assert left is not None
    assert left > 5


def test_a_shield_holds_the_outer_timer_back() -> None:
    """The clean-up ends; what comes after it does not begin."""
    ended: list[bool] = []

    async def main() -> None:
        async with deadline.within(BUDGET):
            async with deadline.shield(SOON):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2 * BUDGET):
                        await waits()
                ended.append(True)
            await waits()

    began = monotonic()
    with pytest.raises(DeadlineExceeded):
        asyncio.run(main())
    assert ended
    assert monotonic() - began < SOON


def test_run_ends_the_coroutine_of_synchronous_code() -> None:
    """Under the deadline in force, whether or not its thread can be struck."""
    began = monotonic()
    with pytest.raises(DeadlineExceeded), deadline.within(BUDGET):
        deadline.run(waits())
    with (
        pytest.raises(DeadlineExceeded),
        deadline.within(BUDGET),
        deadline.enforce("solo"),
    ):
        deadline.run(waits())
    assert monotonic() - began < SOON

    async def answers() -> int:
        return 7

    assert deadline.run(answers()) == 7


def test_a_timeout_of_the_code_s_own_stays_its_own() -> None:
    """Only what the deadline ended has exceeded it."""

    async def main() -> None:
        async with deadline.within(9), asyncio.timeout(BUDGET):
            await waits()

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(main())
    assert not isinstance(caught.value, DeadlineExceeded)


def test_a_coroutine_can_be_decorated_and_a_generator_cannot() -> None:
    """The block is around what is awaited, not around the making of the coroutine."""

    @deadline.within(0.05)
    async def slow() -> None:
        await waits()

    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            asyncio.run(slow())

    def steps() -> Iterator[int]:
        yield 1

    with pytest.raises(Misconfigured, match=r"steps, a generator; allowed is"):
        deadline.within(1)(steps)
