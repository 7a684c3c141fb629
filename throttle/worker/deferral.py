"""Let signals wait while a message is written to RabbitMQ, or a frame is half read.

Celery's handlers of SIGINT, SIGTERM and SIGQUIT write to the broker themselves: a cold
shutdown cancels the consumers. py-amqp's writer holds a lock that is not re-entrant. A
handler that runs while this thread is in the writer waits for that lock for ever, and
the worker never ends.

So with reading: a handler that runs between the header of a frame and its end waits for
an answer, and takes the rest of that frame for the next one. From then on no frame is
understood, and each answer is waited for in vain: five seconds each on Celery 5.7.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WRITING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Run handlers of signals that come inside the block when it has ended."""
    stop = defer_signals()
    try:
        yield
    finally:
        stop()


def defer_signals() -> Callable[[], None]:
    """Have handlers of signals wait; return what ends that, and runs them."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None  # handlers run on the main thread
    came: list[int] = []

    def wait(number: int, frame: Any) -> None:
        del frame
        came.append(number)

    handlers = {number: signal.getsignal(number) for number in WRITING}
    ours = {number: one for number, one in handlers.items() if callable(one)}
    for number in ours:
        signal.signal(number, wait)

    def stop() -> None:
        for number, before in ours.items():
            signal.signal(number, before)
        for one in came:
            signal.raise_signal(one)

    return stop


def read_whole_frames(connection: Any, channel: Any) -> None:
    """Have py-amqp take in each frame that has begun before a handler runs.

    Not until a task that a solo pool runs for it has ended: what the frame brings to
    the channel is dispatched with handlers running again.
    """
    transport, stop = connection.transport, list[Callable[[], None]]()
    read_frame, read = transport.read_frame, transport._read  # noqa: SLF001
    take, dispatch = connection.on_inbound_frame, channel.dispatch_method

    def release() -> None:
        if stop:
            stop.pop()()

    def read_part(size: int, initial: bool = False, **options: Any) -> bytes:
        octets: bytes = read(size, initial, **options)
        if initial:  # the header: it may be waited for, and signals meanwhile
            stop.append(defer_signals())
        return octets

    def read_whole(*args: Any, **options: Any) -> Any:
        try:
            return read_frame(*args, **options)
        except BaseException:
            release()
            raise

    def take_whole(frame: Any) -> Any:
        try:
            return take(frame)
        finally:
            release()

    def dispatch_released(*args: Any) -> Any:
        release()
        return dispatch(*args)

    transport._read, transport.read_frame = read_part, read_whole  # noqa: SLF001
    connection.on_inbound_frame = take_whole
    channel.dispatch_method = dispatch_released
