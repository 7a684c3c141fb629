"""Batches for coroutines: a caller awaits its own item."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, NamedTuple, Self, TypeVar

from celery_pecker.batches.gathering import Gathering, Limits, checked
from celery_pecker.kernel.errors import BatchesClosed

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    future: asyncio.Future[Result]


class AsyncBatches(Generic[Item, Result]):
    """Gathers the items of many coroutines of one event loop into calls of one.

    ::

        async with AsyncBatches(store, most=100, wait=0.02) as batches:
            result = await batches.do(item)

    Args:
        call: a coroutine function that takes a list of items, and returns a sequence
            with one result for each, in their order. An exception in the place of a
            result is raised for that item's caller. It runs in a context of its own:
            no deadline or other context variable of a caller is in force there.
        most: items of one call at most (100).
        wait: seconds from the first item of a batch to its call (0.02); 0 gathers only
            what comes before the event loop turns, or while another call is under way.
        waiting: items that no call has begun with, at most (10,000).
        calls: calls at one time (1).
        one_by_one: after a failed call send each of its items in a call of its own, so
            that one bad item fails alone. The call must stand being repeated.

    Raises:
        Misconfigured: an argument is out of its range; the message names it.
    """

    def __init__(
        self,
        call: Callable[[list[Item]], Awaitable[Sequence[Result | BaseException]]],
        *,
        most: int = 100,
        wait: float = 0.02,
        waiting: int = 10_000,
        calls: int = 1,
        one_by_one: bool = False,
    ) -> None:
        limits = Limits(most=most, wait=wait, waiting=waiting, calls=calls)
        self._call = call
        self._one_by_one = one_by_one
        self._gathering: Gathering[_Waiting[Item, Result]] = Gathering(limits)
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send what was accepted, and end."""
        await self.close()

    @property
    def refused(self) -> int:
        """Items that were refused because too many waited."""
        return self._gathering.refused

    async def do(self, item: Item) -> Result:
        """Hand an item over and return its result.

        The item of a caller that is cancelled is not sent, unless its call has begun.

        Raises:
            BatchesFull: too many items wait.
            BatchesClosed: no more are accepted, or `close` did not wait for it.
        """
        if self._closing:
            raise BatchesClosed
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._gathering.add(_Waiting(item, future), loop.time())
        self._begin_due()
        return await future

    async def close(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Send what was accepted; return whether all was done.

        Args:
            timeout: seconds to wait at most; then callers whose items no call has begun
                with get `BatchesClosed`. None: as long as it takes.
        """
        self._closing = True
        loop = asyncio.get_running_loop()
        ends = None if timeout is None else loop.time() + timeout
        self._begin_due()
        while self._calls:
            left = None if ends is None else max(0.0, ends - loop.time())
            await asyncio.wait(
                self._calls, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if ends is not None and loop.time() >= ends:
                break
            await asyncio.sleep(0)  # a call that ended begins the next one
        while len(self._gathering):
            for waiting in self._gathering.take():
                if not waiting.future.done():
                    waiting.future.set_exception(BatchesClosed())
        return not self._calls

    def _begin_due(self) -> None:
        """Begin the calls that are due, and set a timer for the next one."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while len(self._calls) < self._gathering.limits.calls:
            left = self._gathering.due_in(loop.time(), closing=self._closing)
            if left is None:
                return
            # The batch has room, and other coroutines may still join it
            few = len(self._gathering) < self._gathering.limits.most
            if left > 0.0 or (few and not self._closing):
                self._timer = loop.call_later(left, self._begin_late)
                return
            self._begin(loop)

    def _begin_late(self) -> None:
        """Begin a call whose time is over, with what is there, and all that are due."""
        self._timer = None
        if len(self._gathering) and len(self._calls) < self._gathering.limits.calls:
            self._begin(asyncio.get_running_loop())
        self._begin_due()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [one for one in self._gathering.take() if not one.future.done()]
        if not batch:
            return
        # The context of a caller would bring its deadline, which is not the others'.
        task = loop.create_task(self._send(batch), context=Context())
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._begin_due()

    async def _send(self, batch: list[_Waiting[Item, Result]]) -> None:
        call = asyncio.ensure_future(self._results([one.item for one in batch]))
        await asyncio.wait([call])
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        if error is None:
            for waiting, result in zip(batch, call.result(), strict=True):
                _settle(waiting.future, result)
        elif self._one_by_one and len(batch) > 1:
            for waiting in batch:
                if not waiting.future.done():
                    await self._send([waiting])
        else:
            for waiting in batch:
                _settle(waiting.future, error)

    async def _results(self, items: list[Item]) -> Sequence[Result | BaseException]:
        return checked(await self._call(items), len(items))


def _settle(future: asyncio.Future[Result], result: Result | BaseException) -> None:
    """Set the caller's result or error, if it still waits."""
    if future.done():
        return
    if isinstance(result, asyncio.CancelledError):
        future.cancel()
    elif isinstance(result, StopIteration):  # futures do not take it
        future.set_exception(RuntimeError(f"an item raised {result!r}"))
    elif isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
