"""Stored messages on RabbitMQ: many in one write, each confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amqp.serialization import dumps
from kombu.utils.json import loads

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.rabbitmq_lane import Frame, RabbitLane, Sending
from celery_pecker.brokers.stored_message import Message


class StoredRabbit:
    """Publishes stored messages through py-amqp's own framing."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker
        self._lane = RabbitLane(broker, set())

    def missing(self, exchange: str) -> str | None:
        """Return why nothing can be sent to an exchange; None: it is there.

        A message to one that is not closes the channel, with all sent after it.
        """
        broker = self._broker
        try:
            broker.side.exchange_declare(exchange, "direct", passive=True)
        except broker.refused_by as error:
            broker.reopen()
            return str(error)
        return None

    def send(self, messages: Sequence[Message], now: datetime) -> Sending:
        """Send all of them and wait for the confirms.

        Raises:
            BrokerUnavailable: nothing was sent.

        """
        return self._lane.send([self._framed(message, now) for message in messages])

    def _framed(self, message: Message, now: datetime) -> Frame:
        """Return the bytes that py-amqp would write.

        A message for a queue by its name is to be returned if there is no such queue:
        RabbitMQ would drop it. To an exchange with nothing bound to it messages may be
        sent.
        """
        properties = message.redated(now)
        properties.pop("delivery_info", None)
        properties.pop("priority", None)
        amqp = self._broker.channel.prepare_message(
            message.body,
            priority=message.priority,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=loads(message.headers),
            properties=properties,
        )
        mandatory, immediate = not message.exchange, False
        target = (0, message.exchange, message.routing_key, mandatory, immediate)
        return Frame(
            message.task_id,
            dumps("Bssbb", target),
            amqp._serialize_properties(),  # noqa: SLF001 (what its frame writer calls)
            message.body,
        )
