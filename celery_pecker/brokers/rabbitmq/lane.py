"""The fast lane on RabbitMQ: one write for many messages, confirms awaited at the end.

The bytes of an entry's message are made once by py-amqp; for each slot the id, the
expiry and the `pecker` header are set in, with their lengths. RabbitMQ knows no
token: if the connection breaks before all is confirmed, a message without an answer
may or may not have arrived, and nothing here sends it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from amqp import spec
from amqp.method_framing import frame_writer

from celery_pecker.brokers.publisher.dispatch import SAMPLE, Dispatch, names_in
from celery_pecker.brokers.publisher.lanes import NoTemplate
from celery_pecker.brokers.publisher.message_template import MessageTemplate
from celery_pecker.brokers.publisher.transport import FastLane
from celery_pecker.brokers.rabbitmq.message import RabbitMessage
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain

#: Bytes gathered before they are given to the socket.
WRITE = 1 << 20


class Frame(NamedTuple):
    """What py-amqp writes of one message."""

    task_id: str
    arguments: bytes
    properties: bytes
    body: bytes


class Sending(NamedTuple):
    """What became of messages that were written together, by the ids of their tasks."""

    done: AbstractSet[str]
    """Confirmed."""
    lost: AbstractSet[str]
    """Written and not answered."""
    refused: dict[str, str]
    """Why RabbitMQ would not have them."""
    failure: BaseException | None
    """What ended it before all was answered."""


class RabbitLane(FastLane):
    """Publishes through py-amqp's own framing, many messages to a write."""

    def build(self, template: MessageTemplate) -> RabbitMessage:
        """Return the bytes that py-amqp would write, with places for what differs.

        An exchange that Celery does not declare must be there: a message to one that
        is not closes the channel, with everything that was sent after it.
        """
        broker, route = self._broker, template.route
        declared = {getattr(e, "exchange", e).name for e in route.declare}
        if route.exchange and route.exchange not in declared:
            why = broker.transport.why_missing(route.exchange)
            if why is not None:
                raise NoTemplate(why)
        return RabbitMessage.of(template)

    def check_message(self, message: RabbitMessage, now: datetime) -> None:
        """Fill a message in as a slot would; what is odd about its entry is raised."""
        message.render(SAMPLE, now)

    def push(
        self, work: Sequence[tuple[RabbitMessage, Dispatch]], _token: str, now: datetime
    ) -> None:
        """Send all messages and wait until they are confirmed.

        Raises:
            BrokerUnavailable: the connection was gone before anything was written.
            PublishUncertain: `done` are confirmed; the others may have arrived, or
                RabbitMQ refused them (the text says which).
        """
        broker = self._broker
        sending = self.send(
            Frame(slot.task_id, one.arguments, one.render(slot, now), one.body)
            for one, slot in work
        )
        done = names_in((dispatch for _, dispatch in work), sending.done)
        if sending.failure is not None or sending.lost:
            if isinstance(sending.failure, broker.refused_by):
                # One of them closed the channel: the slow lane finds out which.
                self._suspects |= {dispatch.name for _, dispatch in work} - done
            msg = (
                f"RabbitMQ did not confirm {len(sending.lost)} messages:"
                f" {sending.failure or 'timeout'}"
            )
            raise PublishUncertain(msg, done=done) from sending.failure
        if sending.refused:
            names = {dispatch.task_id: dispatch.name for _, dispatch in work}
            why = "; ".join(
                f"{names.get(i, i)}: {w}" for i, w in sending.refused.items()
            )
            raise PublishUncertain(why, done=done)

    def send(self, frames: Iterable[Frame]) -> Sending:
        """Write all messages and wait for their confirms; return what became of them.

        A broken connection is dropped.

        Raises:
            BrokerUnavailable: the connection was gone before anything was written.
        """
        broker = self._broker
        confirms = broker.confirms
        if confirms is None:
            msg = "the connection to RabbitMQ is closed"
            raise BrokerUnavailable(msg)
        confirms.begin_batch()
        started: set[str] = set()
        failure: BaseException | None = None
        try:
            for ids, octets in self._write_ups(frames):
                if not started:
                    broker.in_time()
                started.update(ids)
                confirms.expect(ids)
                broker.channel.connection.transport.write(octets)
            confirms.wait(broker.timeout)
        except broker.broken_by as error:
            failure = error
        lost, refused = confirms.open, dict(confirms.refused)
        if failure is not None or lost:
            broker.drop()
        return Sending(started - lost - refused.keys(), lost, refused, failure)

    def _write_ups(self, frames: Iterable[Frame]) -> Iterator[tuple[list[str], bytes]]:
        """Yield the ids, in order, and the frames of as many as one write takes."""
        channel = self._broker.channel
        sink = _Sink()
        write = frame_writer(channel.connection, sink)
        number = channel.channel_id
        ids: list[str] = []
        for frame in frames:
            content = _Content(frame.body, frame.properties)
            write(1, number, spec.Basic.Publish, frame.arguments, content)
            ids.append(frame.task_id)
            if len(sink.octets) >= WRITE:
                yield ids, sink.take()
                ids = []
        if ids:
            yield ids, sink.take()


class _Sink:
    """What py-amqp's frame writer writes to instead of the socket."""

    def __init__(self) -> None:
        self.octets = bytearray()

    def write(self, frame: memoryview) -> None:
        self.octets += frame

    def take(self) -> bytes:
        octets, self.octets = bytes(self.octets), bytearray()
        return octets


class _Content:
    """As much of an `amqp.Message` as the frame writer looks at."""

    __slots__ = ("_octets", "body")

    def __init__(self, body: bytes, octets: bytes) -> None:
        self.body = body
        self._octets = octets

    def _serialize_properties(self) -> bytes:
        return self._octets
