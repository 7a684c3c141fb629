"""Deadlines in other threads: they inherit nothing by themselves."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import wraps
from typing import ParamSpec, TypeVar

from celery_pecker.deadline.budget import check, remaining, timeout

Params = ParamSpec("Params")
Answer = TypeVar("Answer")
Ended = TypeVar("Ended")


def wrap(function: Callable[Params, Answer]) -> Callable[Params, Answer]:
    """Return the function with the deadline of this moment, for another thread.

    The whole context goes with it: the current run and a trace too. A call that begins
    after the deadline raises DeadlineExceeded and does nothing.
    """
    context = copy_context()

    @wraps(function)
    def carried(*args: Params.args, **kwargs: Params.kwargs) -> Answer:
        def begin() -> Answer:
            check()
            return function(*args, **kwargs)

        return context.copy().run(begin)

    return carried


class Promise(Future[Answer]):
    """A future whose result is waited for no longer than until the deadline."""

    def result(self, timeout: float | None = None) -> Answer:
        """Return the result; DeadlineExceeded if there is none by the deadline."""
        return self._ask(super().result, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error or None; DeadlineExceeded if it goes on at the deadline."""
        return self._ask(super().exception, timeout)

    def _ask(self, ask: Callable[[float | None], Ended], own: float | None) -> Ended:
        try:
            return ask(timeout(own))
        except TimeoutError:
            if not self.done():
                check()
            raise


class Executor(ThreadPoolExecutor):
    """A pool of threads whose jobs run under the deadline of their submitter."""

    def submit(
        self,
        fn: Callable[Params, Answer],
        /,
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Future[Answer]:
        """Start the job under the deadline of this moment."""
        future = super().submit(wrap(fn), *args, **kwargs)
        future.__class__ = Promise
        return future

    def __exit__(self, *raised: object) -> None:
        """Wait for the jobs, but not beyond the deadline.

        Jobs that have not begun are cancelled then. One that does not check the
        deadline goes on in its thread: it cannot be stopped.
        """
        if remaining() is None:
            self.shutdown(wait=True)
            return
        error = raised[1]
        self.shutdown(wait=False, cancel_futures=error is not None)
        for thread in list(self._threads):
            thread.join(remaining())
        if any(thread.is_alive() for thread in self._threads):
            self.shutdown(wait=False, cancel_futures=True)
            if error is None:
                check()
