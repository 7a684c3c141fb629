"""Publisher confirms of one AMQP channel, collected instead of awaited one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from celery_pecker.kernel.clock import Clock


class Confirms:
    """Counts what is published on a channel, and what RabbitMQ says of it.

    Messages are known by their task's id. `open` are those without an answer.
    """

    def __init__(self, channel: Any, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._tag = 0
        self._open: dict[int, str] = {}
        self.refused: dict[str, str] = {}
        """Ids of messages that RabbitMQ would not have, and why."""
        self._next = ""
        """The task whose message is published next through kombu."""
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)
        self._publish = channel.basic_publish
        channel.basic_publish = self._count
        self.start()

    def start(self) -> None:
        """Have RabbitMQ confirm from now on, counting from one.

        Call it once more after an error: py-amqp then opens the channel anew.
        """
        self._tag = 0
        self._open.clear()
        self._channel.confirm_select()
        # py-amqp would select as well, if the user's options want confirms
        self._channel._confirm_selected = True  # noqa: SLF001 (see above)

    @property
    def open(self) -> frozenset[str]:
        """Ids of messages that were sent and not answered yet."""
        return frozenset(self._open.values())

    def begin_batch(self) -> None:
        """Forget what was refused of the batch before."""
        self.refused.clear()

    def expect_next(self, task_id: str) -> None:
        """Count on this one when the next message is published through kombu."""
        self._next = task_id

    def expect(self, task_ids: Iterable[str]) -> None:
        """Count on one message for each of these; call it before they are written."""
        for task_id in task_ids:
            self._tag += 1
            self._open[self._tag] = task_id

    def wait(self, timeout: float) -> None:
        """Wait until all is answered, or `timeout` seconds; errors of py-amqp pass."""
        deadline = self._clock.monotonic() + timeout
        with contextlib.suppress(TimeoutError):
            while self._open:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return
                self._channel.connection.drain_events(timeout=left)

    def _count(self, *args: Any, **kwargs: Any) -> Any:
        self.expect([self._next])
        tag = self._tag
        try:
            return self._publish(*args, **kwargs)
        except BaseException:
            # Not answered means not written: the next message gets this number.
            if self._open.pop(tag, None) is not None:
                self._tag -= 1
            raise

    def _answered(self, tag: int, multiple: bool) -> list[str]:
        if not multiple:
            return [self._open.pop(tag)] if tag in self._open else []
        tags = [known for known in self._open if known <= tag]
        return [self._open.pop(known) for known in tags]

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._answered(tag, multiple)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        for task_id in self._answered(tag, multiple):
            self.refused[task_id] = "RabbitMQ said no (nack)"

    def _on_return(
        self, error: Exception, _exchange: str, _routing_key: str, message: Any
    ) -> None:
        # comes before the ack; only for messages sent with `mandatory`
        task_id = (message.headers or {}).get("id")
        self.refused[str(task_id)] = f"no queue took it: {error}"
