"""Stored messages on RabbitMQ: many in one write, each confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amqp.serialization import dumps
from kombu.utils.json import loads

from celery_pecker.brokers.publisher.bulk_lanes import Pushed, StoredLane
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.rabbitmq.lane import Frame, RabbitLane
from celery_pecker.brokers.stored_message import Message


class StoredRabbit(StoredLane):
    """Publishes stored messages through py-amqp's own framing."""

    def __init__(self, broker: BrokerConnection) -> None:
        super().__init__(broker)
        self._lane = RabbitLane(broker, set())

    def takes(self, message: Message) -> bool:  # noqa: ARG002  # whatever it is
        """Return that it does."""
        return True

    def push(self, messages: Sequence[Message], token: str, now: datetime) -> Pushed:
        """Send all of them and wait for the confirms.

        Raises:
            BrokerUnavailable: nothing was sent.

        """
        del token  # it says nothing to RabbitMQ
        pushed = Pushed()
        names = {one.exchange for one in messages} - {""}
        why_missing = self._broker.transport.why_missing
        errors = {name: why_missing(name) for name in sorted(names)}
        missing = {name: why for name, why in errors.items() if why is not None}
        for one in messages:
            if one.exchange in missing:
                pushed.refused[one.id] = missing[one.exchange]
        sendable = [one for one in messages if one.id not in pushed.refused]
        sending = self._lane.send([self._framed(one, now) for one in sendable])
        pushed.sent.update(one.id for one in sendable if one.task_id in sending.done)
        for one in sendable:
            if one.task_id in sending.refused and one.id not in pushed.sent:
                pushed.refused[one.id] = sending.refused[one.task_id]
        if isinstance(sending.failure, self._broker.refused_by):
            rest = {one.id for one in sendable} - pushed.sent - pushed.refused.keys()
            pushed.alone.update(rest)
            pushed.why = str(sending.failure)
        elif sending.failure is not None or sending.lost:
            pushed.broken = sending.failure or TimeoutError("no confirms in time")
        return pushed

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
