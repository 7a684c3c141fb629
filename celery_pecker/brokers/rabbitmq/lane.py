"""The fast lane on RabbitMQ: one write for many messages, confirms awaited at the end.

The bytes of an entry's message are made once by py-amqp; for each slot the id, the
expiry and the `pecker` header are set in, with their lengths. RabbitMQ knows no
token: if the connection breaks before all is confirmed, a message without an answer
may or may not have arrived, and nothing here sends it again.

One entry's message as py-amqp writes it: property bytes and a body.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from struct import pack
from types import SimpleNamespace
from typing import Any, NamedTuple

from amqp import spec
from amqp.method_framing import frame_writer
from amqp.serialization import dumps

from celery_pecker.brokers.publisher.bulk_lanes import (
    FastLane,
    Pushed,
    StoredLane,
    prepared,
)
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import SAMPLE, Dispatch, NoTemplate, names_in
from celery_pecker.brokers.publisher.message_template import (
    Expiry,
    MessageTemplate,
    Placeholders,
    Route,
    with_places,
)
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain


@dataclass(frozen=True, slots=True)
class Properties:
    """The property bytes of a message: fixed, a header table, fixed but for marks."""

    head: bytes
    table: bytes
    tail: bytes

    @classmethod
    def of(cls, message: Any, marks: Placeholders) -> "Properties":
        """Cut up what py-amqp makes of the message's properties."""
        raw = message._serialize_properties()  # noqa: SLF001 (what its frame writer calls)
        table = dumps("F", (message.properties["application_headers"],))
        start = raw.index(table)
        places = {
            _long(marks.task_id): b"%(id)b",
            _long(marks.header): b"%(header)b",
            _long(marks.expires): b"%(expires)b",
            _short(marks.task_id): b"%(correlation)b",
            _short(marks.expiration): b"%(expiration)b",
        }
        return cls(
            raw[:start],
            with_places(table[4:], places, marks),
            with_places(raw[start + len(table) :], places, marks),
        )

    def fill(self, fields: dict[bytes, bytes]) -> bytes:
        """Return the bytes for one slot."""
        table = self.table % fields
        return b"".join((self.head, pack(">I", len(table)), table, self.tail % fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMessage:
    """The bytes of one entry's message, with and without an expiry."""

    route: Route
    arguments: bytes
    body: bytes
    expiry: Expiry
    plain: Properties
    dated: Properties

    @classmethod
    def of(cls, template: MessageTemplate) -> "RabbitMessage":
        """Return the bytes that py-amqp would write, with places for what differs."""
        message, route = template.message, template.route
        body = message.body
        if isinstance(body, str):
            encoding = message.properties.setdefault("content_encoding", "utf-8")
            body = body.encode(encoding)
        dated = Properties.of(message, template.marks)
        message.properties["application_headers"]["expires"] = None
        del message.properties["expiration"]
        target = (0, route.exchange, route.routing_key)
        return cls(
            route=route,
            arguments=dumps("Bssbb", (*target, route.mandatory, route.immediate)),
            body=body,
            expiry=template.expiry,
            plain=Properties.of(message, template.marks),
            dated=dated,
        )

    def render(self, dispatch: Dispatch, now: datetime) -> bytes:
        """Return the property bytes for one slot."""
        stamp = self.expiry.stamp(now, dispatch.expires)
        fields = {
            b"id": _long(dispatch.task_id),
            b"correlation": _short(dispatch.task_id),
            b"header": b"F" + dumps("F", (dict(dispatch.header),)),
        }
        if stamp is None:
            fields[b"expires"] = b"V"
            return self.plain.fill(fields)
        fields[b"expires"] = _long(stamp.header)
        fields[b"expiration"] = _short(stamp.milliseconds)
        return self.dated.fill(fields)


def _long(text: str) -> bytes:
    """Return a string as it stands in a header table."""
    octets = text.encode()
    return b"S" + pack(">I", len(octets)) + octets


def _short(text: str) -> bytes:
    """Return a string as it stands among the properties."""
    octets = text.encode()
    return bytes((len(octets),)) + octets


#: Bytes gathered before they are given to the socket.
WRITE = 1 << 20


class Frame(NamedTuple):
    """What py-amqp writes of one message: as much as its frame writer looks at."""

    task_id: str
    arguments: bytes
    properties: bytes
    body: bytes

    def _serialize_properties(self) -> bytes:
        return self.properties


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
        frames = (
            Frame(slot.task_id, one.arguments, one.render(slot, now), one.body)
            for one, slot in work
        )
        sending = send(broker, frames)
        done = names_in((dispatch for _, dispatch in work), sending.sent)
        if sending.broken is not None or sending.lost:
            if isinstance(sending.broken, broker.refused_by):
                # One of them closed the channel: the slow lane finds out which.
                self._suspects |= {dispatch.name for _, dispatch in work} - done
            raise PublishUncertain(
                f"RabbitMQ did not confirm {len(sending.lost)} messages:"
                f" {sending.broken or 'timeout'}",
                done=done,
            ) from sending.broken
        if sending.refused:
            names = {dispatch.task_id: dispatch.name for _, dispatch in work}
            raise PublishUncertain(
                "; ".join(
                    f"{names.get(i, i)}: {w}" for i, w in sending.refused.items()
                ),
                done=done,
            )


def send(broker: BrokerConnection, frames: Iterable[Frame]) -> Pushed[str]:
    """Write all messages and wait for their confirms; return what became of them.

    A broken connection is dropped.

    Raises:
        BrokerUnavailable: the connection was gone before anything was written.
    """
    confirms = broker.confirms
    if confirms is None:
        raise BrokerUnavailable("the connection to RabbitMQ is closed")
    confirms.begin_batch()
    started: set[str] = set()
    failure: BaseException | None = None
    try:
        for ids, octets in _write_ups(broker.channel, frames):
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
    sent = started - lost - refused.keys()
    return Pushed(sent=sent, lost=lost, refused=refused, broken=failure)


def _write_ups(
    channel: Any, frames: Iterable[Frame]
) -> Iterator[tuple[list[str], bytes]]:
    """Yield the ids, in order, and the frames of as many as one write takes."""
    octets = bytearray()  # what is written to instead of the socket
    write = frame_writer(channel.connection, SimpleNamespace(write=octets.extend))
    number = channel.channel_id
    ids: list[str] = []
    for frame in frames:
        write(1, number, spec.Basic.Publish, frame.arguments, frame)
        ids.append(frame.task_id)
        if len(octets) >= WRITE:
            yield ids, bytes(octets)
            ids = []
            octets.clear()
    if ids:
        yield ids, bytes(octets)


class StoredRabbit(StoredLane):
    """Publishes stored messages through py-amqp's own framing."""

    def takes(self, message: Message) -> bool:
        """Return that it does."""
        return True

    def push(
        self, messages: Sequence[Message], token: str, now: datetime
    ) -> Pushed[int]:
        """Send all of them and wait for the confirms.

        Raises:
            BrokerUnavailable: nothing was sent.

        """
        pushed = Pushed[int]()
        names = {one.exchange for one in messages} - {""}
        why_missing = self._broker.transport.why_missing
        errors = {name: why_missing(name) for name in sorted(names)}
        missing = {name: why for name, why in errors.items() if why is not None}
        for one in messages:
            if one.exchange in missing:
                pushed.refused[one.id] = missing[one.exchange]
        sendable = [one for one in messages if one.id not in pushed.refused]
        sending = send(self._broker, [self._framed(one, now) for one in sendable])
        pushed.sent.update(one.id for one in sendable if one.task_id in sending.sent)
        for one in sendable:
            if one.task_id in sending.refused and one.id not in pushed.sent:
                pushed.refused[one.id] = sending.refused[one.task_id]
        if isinstance(sending.broken, self._broker.refused_by):
            rest = {one.id for one in sendable} - pushed.sent - pushed.refused.keys()
            pushed.alone.update(rest)
            pushed.why = str(sending.broken)
        elif sending.broken is not None or sending.lost:
            pushed.broken = sending.broken or TimeoutError("no confirms in time")
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
        amqp = prepared(self._broker.channel, message, message.body, properties)
        mandatory, immediate = not message.exchange, False
        target = (0, message.exchange, message.routing_key, mandatory, immediate)
        return Frame(
            message.task_id,
            dumps("Bssbb", target),
            amqp._serialize_properties(),  # noqa: SLF001 (what its frame writer calls)
            message.body,
        )
