"""RabbitMQ to the publisher: two channels, confirms, and alarms that block.

Confirms of one channel are collected instead of awaited one by one.
"""

import contextlib
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import kombu.transport.pyamqp

from celery_pecker.brokers.publisher.transport import Transport, abort
from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.errors import BrokerUnavailable


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
        channel.events["basic_ack"].add(self._answered)
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

    def _on_nack(self, tag: int, multiple: bool) -> None:
        for task_id in self._answered(tag, multiple):
            self.refused[task_id] = "RabbitMQ said no (nack)"

    def _on_return(
        self, error: Exception, _exchange: str, _routing_key: str, message: Any
    ) -> None:
        # comes before the ack; only for messages sent with `mandatory`
        task_id = (message.headers or {}).get("id")
        self.refused[str(task_id)] = f"no queue took it: {error}"


class RabbitMQ(Transport):
    """A RabbitMQ, or another broker that speaks AMQP as it does."""

    lane = "celery_pecker.brokers.rabbitmq.lane:RabbitLane"
    stored = "celery_pecker.brokers.rabbitmq.lane:StoredRabbit"
    classes = (kombu.transport.pyamqp.Transport, kombu.transport.pyamqp.SSLTransport)
    ends_batch = kombu.transport.pyamqp.Transport.channel_errors
    blocked = False

    def open(self) -> None:
        """Open two channels: a refusal closes one."""
        amqp = self.connection.connection
        # py-amqp's own timeouts end a wait for the first byte of a frame only
        amqp.sock.settimeout(self.broker.timeout)
        amqp.on_blocked, amqp.on_unblocked = self._block, self._unblock
        self.reopen()

    def reopen(self) -> None:
        """Open the channels anew that RabbitMQ has closed."""
        broker = self.broker
        if broker.channel is None or not broker.channel.is_open:
            broker.channel = self.connection.channel()
            broker.confirms = Confirms(broker.channel, broker.clock)
        if broker.side is None or not broker.side.is_open:
            broker.side = self.connection.channel()

    def check_socket(self) -> None:
        """Read what RabbitMQ has sent meanwhile; a closed socket raises."""
        amqp = self.connection.connection
        with contextlib.suppress(TimeoutError):
            while True:
                amqp.drain_events(timeout=0)
        self.reopen()
        if self.blocked:
            raise BrokerUnavailable(
                "RabbitMQ blocks publishers: an alarm of memory or disk is on"
            )

    def ask(self) -> None:
        """Ask for what is answered and changes nothing: AMQP has no ping."""
        self.broker.side.basic_qos(0, 0, False)

    def why_missing(self, exchange: str) -> str | None:
        """Return why; a message to one that is not there closes the channel.

        With everything that was sent after it.
        """
        broker = self.broker
        try:
            broker.side.exchange_declare(exchange, "direct", passive=True)
        except broker.refused_by as error:
            self.reopen()
            return str(error)
        except broker.broken_by as error:
            broker.drop()
            raise BrokerUnavailable(
                f"broker, while asking for exchanges: {error}"
            ) from error
        return None

    def hang_up(self) -> None:
        """Close the socket, without AMQP's goodbye."""
        abort(self.sockets())
        amqp = self.connection._connection  # noqa: SLF001 (the property would connect)
        if amqp is not None:
            if amqp._transport is not None:  # noqa: SLF001 (as above)
                # Else amqp says goodbye by TLS on a closed socket: a ValueError, which
                # ends the thread of the caller.
                amqp._transport.sock = None  # noqa: SLF001 (as above)
            amqp.collect()

    def sockets(self) -> Iterator[socket.socket]:
        """Yield its socket."""
        amqp = self.connection._connection  # noqa: SLF001 (the property would connect)
        transport = None if amqp is None else amqp._transport  # noqa: SLF001 (as above)
        if transport is not None and transport.sock is not None:
            yield transport.sock

    def _block(self, _reason: object) -> None:
        self.blocked = True

    def _unblock(self) -> None:
        self.blocked = False
