"""Stored messages on RabbitMQ: many in one write, each confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from amqp.serialization import dumps
from kombu.utils.json import loads

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.dispatch import Dispatch
from celery_pecker.brokers.publisher.rabbitmq_lane import RabbitLane, Sending
from celery_pecker.brokers.publisher.stored_messages.message import (
    StoredMessage,
    redated,
)


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

    def send(self, messages: Sequence[StoredMessage], now: datetime) -> Sending:
        """Send all of them and wait for the confirms.

        Raises:
            BrokerUnavailable: nothing was sent.

        """
        work: list[tuple[Any, Dispatch]] = [
            (
                _Framed.of(message, self._broker.channel, now),
                Dispatch(name=str(message.key), task_id=message.task_id, header={}),
            )
            for message in messages
        ]
        return self._lane.send(work, now)


@dataclass(frozen=True, slots=True)
class _Framed:
    """A stored message as the lane of RabbitMQ takes one."""

    arguments: bytes
    body: bytes
    octets: bytes

    @classmethod
    def of(cls, message: StoredMessage, channel: Any, now: datetime) -> _Framed:
        """Return the bytes that py-amqp would write."""
        properties = redated(message, now)
        properties.pop("delivery_info", None)
        properties.pop("priority", None)
        amqp = channel.prepare_message(
            message.body,
            priority=message.priority,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=loads(message.headers),
            properties=properties,
        )
        route = message.route
        target = (0, route.exchange, route.routing_key)
        return cls(
            dumps("Bssbb", (*target, route.mandatory, route.immediate)),
            message.body,
            amqp._serialize_properties(),  # noqa: SLF001 (what its frame writer calls)
        )

    def render(self, _dispatch: Dispatch, _now: datetime) -> bytes:
        """Return the property bytes."""
        return self.octets
