"""One look after the other, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator

from throttle.clock import Monotonic, monotonic, pause


def turns(
    every: float, times: int | None = None, *, clock: Monotonic = monotonic
) -> Iterator[int]:
    """Give 0, 1, 2 … at that pace, so many times or for ever.

    Each is due so long after the one before was due: what a look takes is no drift. A
    look that took longer than a turn leaves turns out.
    """
    began = clock()
    nth = done = 0
    while times is None or done < times:
        if done:
            passed = clock() - began
            nth = max(nth + 1, int(passed / every))
            pause(max(began + nth * every - clock(), 0.0))
        yield nth
        done += 1
