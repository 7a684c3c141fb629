"""Batches for threads: a caller blocks until its own item is done."""

import atexit
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, NamedTuple, Self, TypeVar

from celery_pecker import deadline
from celery_pecker.batches.gathering import Gathering, Limits, checked
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import BatchesClosed
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.user_code import no_exit, tried

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    future: Future[Result]


class Batches(Generic[Item, Result]):
    """Gathers the items of many threads into calls of one function.

    ::

        with Batches(store, most=100, wait=0.02) as batches:
            result = batches.do(item)

    Args:
        call: takes a list of items, and returns a sequence with one result for each, in
            their order. An exception in the place of a result is raised for that
            item's caller.
        most: items of one call at most (100).
        wait: seconds from the first item of a batch to its call (0.02); 0 gathers only
            what comes while another call is under way.
        waiting: items that no call has begun with, at most (10,000).
        threads: calls at one time, each in a thread of its own (1). They start with the
            first item.
        one_by_one: after a failed call send each of its items in a call of its own, so
            that one bad item fails alone. The call must stand being repeated.

    Raises:
        Misconfigured: an argument is out of its range; the message names it.
    """

    def __init__(
        self,
        call: Callable[[list[Item]], Sequence[Result | BaseException]],
        *,
        most: int = 100,
        wait: float = 0.02,
        waiting: int = 10_000,
        threads: int = 1,
        one_by_one: bool = False,
    ) -> None:
        limits = Limits(most=most, wait=wait, waiting=waiting, calls=threads)
        self._call = call
        self._one_by_one = one_by_one
        self._gathering: Gathering[_Waiting[Item, Result]] = Gathering(limits)
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closing = False
        abandon_in_forks(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send what was accepted, and end."""
        self.close()

    @property
    def refused(self) -> int:
        """Items that were refused because too many waited."""
        return self._gathering.refused

    def do(self, item: Item, timeout: float | None = None) -> Result:
        """Hand an item over and return its result.

        Waits until the deadline of the run at most (`celery_pecker.deadline`). The item
        of a caller that stops waiting is not sent, unless its call has begun.

        Args:
            item: what the call gets.
            timeout: seconds to wait at most; None: as long as it takes.

        Raises:
            BatchesFull: too many items wait.
            BatchesClosed: no more are accepted, or `close` did not wait for it.
            TimeoutError: it took longer than ``timeout`` or the deadline.
        """
        bound = deadline.timeout(timeout)
        future = self.submit(item)
        try:
            return future.result(bound)
        except TimeoutError:
            if not future.done():
                future.cancel()
                deadline.check()
            raise

    def submit(self, item: Item) -> Future[Result]:
        """Hand an item over and return a future of its result.

        Raises:
            BatchesFull: too many items wait.
            BatchesClosed: no more are accepted.
        """
        future: Future[Result] = Future()
        with self._changed:
            if self._closing:
                raise BatchesClosed
            self._gathering.add(_Waiting(item, future), SYSTEM.monotonic())
            if not self._threads:
                self._start()
            self._changed.notify()
        return future

    def close(self, timeout: float | None = None) -> bool:
        """Send what was accepted, and end the threads; return whether all was done.

        Args:
            timeout: seconds to wait at most; then callers whose items no call has begun
                with get `BatchesClosed`. None: as long as it takes.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        ends = None if timeout is None else SYSTEM.monotonic() + timeout
        for thread in self._threads:
            left = None if ends is None else max(0.0, ends - SYSTEM.monotonic())
            thread.join(left)
        late = any(thread.is_alive() for thread in self._threads)
        with self._changed:
            while late and len(self._gathering):
                for waiting in self._gathering.take():
                    if waiting.future.set_running_or_notify_cancel():
                        waiting.future.set_exception(BatchesClosed())
        atexit.unregister(self.close)
        return not late

    def abandon(self) -> None:
        """Begin anew in a fork: threads are the parent's, callers would wait for ever.

        Called by the kernel, not by users.
        """
        self._changed = threading.Condition()
        self._gathering = Gathering(self._gathering.limits)
        self._threads = []

    def _start(self) -> None:
        # Daemons, so that a forgotten close() does not keep the process; what waits at
        # the end of the process is sent by atexit, which runs before daemons are ended.
        atexit.register(self.close)
        self._threads = [
            threading.Thread(target=self._run, name=f"batches-{number}", daemon=True)
            for number in range(1, self._gathering.limits.calls + 1)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while batch := self._next():
            wanted = [one for one in batch if one.future.set_running_or_notify_cancel()]
            if wanted:
                self._send(wanted)

    def _next(self) -> list[_Waiting[Item, Result]]:
        """Wait for a batch and return it; an empty one at the end."""
        with self._changed:
            while True:
                now = SYSTEM.monotonic()
                left = self._gathering.due_in(now, closing=self._closing)
                if left == 0.0:
                    return self._gathering.take()
                if left is None and self._closing:
                    return []
                self._changed.wait(left)

    def _send(self, batch: list[_Waiting[Item, Result]]) -> None:
        results, error = tried(self._results, [one.item for one in batch])
        if error is None:
            for waiting, result in zip(batch, results or (), strict=True):
                if isinstance(result, BaseException):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)
        elif self._one_by_one and len(batch) > 1:
            for waiting in batch:
                self._send([waiting])
        else:
            for waiting in batch:
                waiting.future.set_exception(error)

    def _results(self, items: list[Item]) -> Sequence[Result | BaseException]:
        with no_exit("the call of a batch"):
            return checked(self._call(items), len(items))
