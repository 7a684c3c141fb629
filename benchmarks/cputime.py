"""What a call takes of its own thread's processor: nobody else's time is in it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def cpu_us(ask: Callable[[], object], times: int) -> float:
    """Return microseconds of this thread's processor time for one of so many calls."""
    began = time.thread_time_ns()
    for _ in range(times):
        ask()
    return (time.thread_time_ns() - began) / times / 1e3


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is collected within; what there was is gone."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
