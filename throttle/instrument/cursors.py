"""psycopg's cursors, made to count what they send.

The wrapped method is reached by one frame of ours. What that frame does is the price of
the meter, so it touches integers only, and reads each name once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import psycopg

from celery_pecker.kernel.clock import perf_ns
from throttle.meter import Tally
from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS, STARTED

if TYPE_CHECKING:
    from throttle.meter.cells import Cells


Parameters = TypeVar("Parameters")


class Timed:
    """Counts what is done within it: `with Timed(tally) as timed: …; timed.rows = 3`.

    It counts whether or not it fails, for a statement that fails was work too.
    """

    __slots__ = ("_at", "_cells", "_started", "_tally", "_timing", "operations", "rows")

    def __init__(
        self, tally: Tally, *, operations: int = 1, timing: bool = True
    ) -> None:
        self._tally = tally
        self._timing = timing
        self.operations = operations
        self.rows = 0
        """Rows that it returned or changed; below zero: not known."""

    def __enter__(self) -> Self:
        self._cells: Cells = self._tally.local.cells
        self._at = at = self._tally.at
        self._cells[at + OPERATIONS] += self.operations
        self._started = perf_ns()
        if self._timing:
            self._cells[at + STARTED] = self._started
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._timing:
            return
        cells, at = self._cells, self._at
        cells[at + STARTED] = 0
        cells[at + NANOSECONDS] += perf_ns() - self._started
        if self.rows > 0:
            cells[at + ROWS] += self.rows


def each(parameters: Iterable[Parameters], tally: Tally) -> Iterator[Parameters]:
    """Yield the parameters as they are asked for: a statement is counted for each."""
    for one in parameters:
        tally.local.cells[tally.at + OPERATIONS] += 1
        yield one


Method = Callable[..., Any]
Made = dict[str, Method]

PLAIN_KIND = "_throttle_plain"
"""Of a class that is made in this module: what it was made of."""


def plain(kind: type[Any]) -> type[Any]:
    """Return the class that a counting one was made of, and any other as it is."""
    plain: type[Any] = vars(kind).get(PLAIN_KIND, kind)
    return plain


@cache
def counted_cursor(kind: Any, tally: Tally, *, timing: bool) -> type[Any]:
    """Return a class of cursors that count, and otherwise are as `kind`."""
    kind = plain(kind)
    if hasattr(kind, PLAIN_KIND):  # a user's class, made of one that counts
        return cast("type[Any]", kind)
    waits = issubclass(kind, psycopg.AsyncCursor)
    if timing:
        counted = (_timed_async if waits else _timed)(kind.execute, tally)
    else:  # what an asynchronous method returns to: its coroutine is made, not begun
        counted = _count_only(kind.execute, tally)
    added = {
        "__slots__": (),
        "__module__": kind.__module__,
        PLAIN_KIND: kind,
        "execute": counted,
        **(_many_async if waits else _many)(kind, tally, timing=timing),
    }
    return type(f"Counted{kind.__name__}", (kind,), added)


# `query` and `params` are named in what follows: passing `*args` on costs 0.1 µs more.


def _count_only(method: Method, tally: Tally) -> Method:
    local = tally.local

    def execute(self: Any, query: Any, params: Any = None, **kwargs: Any) -> Any:
        local.cells[tally.at] += 1
        return method(self, query, params, **kwargs)

    return execute


def _timed(method: Method, tally: Tally) -> Method:
    local = tally.local

    def execute(self: Any, query: Any, params: Any = None, **kwargs: Any) -> Any:
        cells, at = local.cells, tally.at
        cells[at] += 1
        cells[at + 3] = started = perf_ns()
        try:
            done = method(self, query, params, **kwargs)
        finally:
            cells[at + 3] = 0
            cells[at + 1] += perf_ns() - started
        if (rows := self._rowcount) > 0:
            cells[at + 2] += rows
        return done

    return execute


def _timed_async(method: Method, tally: Tally) -> Method:
    local = tally.local

    async def execute(self: Any, query: Any, params: Any = None, **kwargs: Any) -> Any:
        cells, at = local.cells, tally.at
        cells[at] += 1
        cells[at + 3] = started = perf_ns()
        try:
            done = await method(self, query, params, **kwargs)
        finally:
            cells[at + 3] = 0
            cells[at + 1] += perf_ns() - started
        if (rows := self._rowcount) > 0:
            cells[at + 2] += rows
        return done

    return execute


def _many(kind: type[Any], tally: Tally, *, timing: bool) -> Made:
    executemany_of, stream_of, copy_of = kind.executemany, kind.stream, kind.copy

    def executemany(
        self: Any, query: Any, params_seq: Iterable[Any], **kwargs: Any
    ) -> None:
        with Timed(tally, operations=0, timing=timing) as timed:
            executemany_of(self, query, each(params_seq, tally), **kwargs)
            timed.rows = self.rowcount

    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        stream = closing(stream_of(self, *args, **kwargs))
        with Timed(tally, timing=timing) as timed, stream as rows:
            for row in rows:
                timed.rows += 1
                yield row

    @contextmanager
    def copy(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with Timed(tally, timing=timing) as timed:
            with copy_of(self, *args, **kwargs) as copying:
                yield copying
            timed.rows = self.rowcount

    return {"executemany": executemany, "stream": stream, "copy": copy}


def _many_async(kind: type[Any], tally: Tally, *, timing: bool) -> Made:
    executemany_of, stream_of, copy_of = kind.executemany, kind.stream, kind.copy

    async def executemany(
        self: Any, query: Any, params_seq: Iterable[Any], **kwargs: Any
    ) -> None:
        with Timed(tally, operations=0, timing=timing) as timed:
            await executemany_of(self, query, each(params_seq, tally), **kwargs)
            timed.rows = self.rowcount

    async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with Timed(tally, timing=timing) as timed:
            rows = stream_of(self, *args, **kwargs)
            async with aclosing(rows):
                async for row in rows:
                    timed.rows += 1
                    yield row

    @asynccontextmanager
    async def copy(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with Timed(tally, timing=timing) as timed:
            async with copy_of(self, *args, **kwargs) as copying:
                yield copying
            timed.rows = self.rowcount

    return {"executemany": executemany, "stream": stream, "copy": copy}
