"""What a worker holds goes back when it ends: at once, not when its tasks are done.

Celery gives back what is unacknowledged as it closes its channel. On a warm shutdown
that is after the last running task, which may take an hour, and a rush would wait for
it. What cannot be returned now is redelivered then.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.common import ignore_errors

from throttle.clock import Monotonic, monotonic
from throttle.worker.held import Held

REQUEUE_TIMEOUT = 3.0
"""Seconds: less than an orchestrator waits before it kills."""


def requeue(consumer: Any, held: Iterable[Held], clock: Monotonic = monotonic) -> int:
    """Return these to their queues, the oldest first in line; return how many.

    `held` in the order they came.
    """
    until = clock() + REQUEUE_TIMEOUT
    count = 0
    with ignore_errors(consumer):
        # Or they would be redelivered to this worker
        consumer.task_consumer.cancel()
        _end_fetch(consumer)
        for one in reversed(list(held)):
            _return(consumer, one.request.message)
            one.request.acknowledged = True  # whatever holds on to it
            count += 1
            if clock() > until:
                break
    return count


def _end_fetch(consumer: Any) -> None:
    # A fetch that is on its way to Redis would take the first that goes back, and keep
    # it in a socket that is not read. It ends by itself, within a second; what it
    # brings is put back by kombu.
    channel = consumer.task_consumer.channel
    if getattr(channel, "_in_poll", None):
        with suppress(Empty):
            channel._brpop_read()  # noqa: SLF001 — as kombu does when it closes


def _return(consumer: Any, message: Any) -> None:
    if consumer.connection.transport.driver_type != "redis":
        message.reject(requeue=True)
        return
    # kombu's own `reject` pushes to the far end of the queue
    qos = message.channel.qos
    qos.restore_by_tag(message.delivery_tag, leftmost=False)
    qos._quick_ack(message.delivery_tag)  # noqa: SLF001 — what its `reject` does, too
