"""RabbitMQ to the publisher: two channels, confirms, and alarms that block."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import kombu.transport.pyamqp

from celery_pecker.brokers.publisher.transport import Transport, abort
from celery_pecker.brokers.rabbitmq.confirms import Confirms
from celery_pecker.kernel.errors import BrokerUnavailable


class RabbitMQ(Transport):
    """A RabbitMQ, or another broker that speaks AMQP as it does."""

    name = "rabbitmq"
    lane = "celery_pecker.brokers.rabbitmq.lane:RabbitLane"
    stored = "celery_pecker.brokers.rabbitmq.stored:StoredRabbit"
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
            msg = "RabbitMQ blocks publishers: an alarm of memory or disk is on"
            raise BrokerUnavailable(msg)

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
            msg = f"broker, while asking for exchanges: {error}"
            raise BrokerUnavailable(msg) from error
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
