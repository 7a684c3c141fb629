"""Let signals wait while a message is written to RabbitMQ.

Celery's handlers of SIGINT, SIGTERM and SIGQUIT write to the broker themselves: a cold
shutdown cancels the consumers. py-amqp's writer holds a lock that is not re-entrant. A
handler that runs while this thread is in the writer waits for that lock for ever, and
the worker never ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WRITING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Run handlers of signals that come inside the block when it has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run on the main thread
        return
    came: list[int] = []

    def wait(number: int, frame: Any) -> None:
        del frame
        came.append(number)

    handlers = {number: signal.getsignal(number) for number in WRITING}
    ours = {number: one for number, one in handlers.items() if callable(one)}
    for number in ours:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, before in ours.items():
            signal.signal(number, before)
        for one in came:
            signal.raise_signal(one)
