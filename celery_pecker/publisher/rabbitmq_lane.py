"""The fast lane on RabbitMQ: one write for many messages, confirms awaited at the end.

The bytes of an entry's message are made once by py-amqp; for each slot the id, the
expiry and the `pecker` header are set in, with their lengths. RabbitMQ knows no
token: if the connection breaks before all is confirmed, a message without an answer
may or may not have arrived, and nothing here sends it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from struct import pack
from typing import Any

from amqp import spec
from amqp.method_framing import frame_writer
from amqp.serialization import dumps

from celery_pecker.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.publisher.connection import Link
from celery_pecker.publisher.dispatch import Dispatch
from celery_pecker.publisher.envelope import Draft, Marks, Route
from celery_pecker.publisher.expiry import Expiry
from celery_pecker.publisher.lanes import NotPlain

#: Bytes gathered before they are given to the socket.
WRITE = 1 << 20


@dataclass(frozen=True, slots=True)
class Properties:
    """The property bytes of a message: fixed, a header table, fixed but for marks."""

    head: bytes
    table: bytes
    tail: bytes

    @classmethod
    def of(cls, message: Any, marks: Marks) -> Properties:
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
            _with_places(table[4:], places, marks),
            _with_places(raw[start + len(table) :], places, marks),
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


class RabbitLane:
    """Publishes through py-amqp's own framing, many messages to a write."""

    exact = False

    def __init__(self, link: Link) -> None:
        self._link = link

    def build(self, draft: Draft) -> RabbitMessage:
        """Return the bytes that py-amqp would write, with places for what differs.

        An exchange that Celery does not declare must be there: a message to one that
        is not closes the channel, with everything that was sent after it.
        """
        link, route, message = self._link, draft.route, draft.message
        if route.exchange and not route.declare:
            try:
                link.side.exchange_declare(route.exchange, "direct", passive=True)
            except link.refused_by as error:
                link.reopen()
                raise NotPlain(str(error)) from error
        body = message.body
        if isinstance(body, str):
            encoding = message.properties.setdefault("content_encoding", "utf-8")
            body = body.encode(encoding)
        dated = Properties.of(message, draft.marks)
        message.properties["application_headers"]["expires"] = None
        del message.properties["expiration"]
        target = (0, route.exchange, route.routing_key)
        return RabbitMessage(
            route=route,
            arguments=dumps("Bssbb", (*target, route.mandatory, route.immediate)),
            body=body,
            expiry=draft.expiry,
            plain=Properties.of(message, draft.marks),
            dated=dated,
        )

    def push(
        self, work: Sequence[tuple[RabbitMessage, Dispatch]], _token: str, now: datetime
    ) -> None:
        """All messages are confirmed.

        Raises:
            BrokerUnavailable: the connection was gone before anything was written.
            PublishUncertain: `done` are confirmed; the others may have arrived, or
                RabbitMQ refused them (the text says which).
        """
        link = self._link
        confirms = link.confirms
        if confirms is None:
            msg = "the connection to RabbitMQ is closed"
            raise BrokerUnavailable(msg)
        confirms.refused.clear()
        names = {dispatch.task_id: dispatch.name for _, dispatch in work}
        started: set[str] = set()
        failure: BaseException | None = None
        try:
            for ids, octets in self._write_ups(work, now):
                started |= ids
                confirms.expect(ids)
                link.channel.connection.transport.write(octets)
            confirms.wait(link.timeout)
        except link.broken_by as error:
            failure = error
        lost = confirms.open
        arrived = started - lost - confirms.refused.keys()
        # a name that caught up has several messages: it is done when all of them are
        undone = {name for task_id, name in names.items() if task_id not in arrived}
        done = frozenset(names.values()) - undone
        if failure is not None or lost:
            link.drop()
            msg = (
                f"RabbitMQ did not confirm {len(lost)} messages: {failure or 'timeout'}"
            )
            raise PublishUncertain(msg, done=done) from failure
        if confirms.refused:
            why = "; ".join(
                f"{names.get(i, i)}: {w}" for i, w in confirms.refused.items()
            )
            raise PublishUncertain(why, done=done)

    def _write_ups(
        self, work: Sequence[tuple[RabbitMessage, Dispatch]], now: datetime
    ) -> Iterator[tuple[set[str], bytes]]:
        """Yield the ids and the frames of as many messages as one write takes."""
        channel = self._link.channel
        sink = _Sink()
        write = frame_writer(channel.connection, sink)
        number = channel.channel_id
        ids: set[str] = set()
        for message, dispatch in work:
            content = _Content(message.body, message.render(dispatch, now))
            write(1, number, spec.Basic.Publish, message.arguments, content)
            ids.add(dispatch.task_id)
            if len(sink.octets) >= WRITE:
                yield ids, sink.take()
                ids = set()
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


def _long(text: str) -> bytes:
    """Return a string as it stands in a header table."""
    octets = text.encode()
    return b"S" + pack(">I", len(octets)) + octets


def _short(text: str) -> bytes:
    """Return a string as it stands among the properties."""
    octets = text.encode()
    return bytes((len(octets),)) + octets


def _with_places(octets: bytes, places: dict[bytes, bytes], marks: Marks) -> bytes:
    octets = octets.replace(b"%", b"%%")
    for mark, place in places.items():
        octets = octets.replace(mark.replace(b"%", b"%%"), place)
    texts = (marks.task_id, marks.header, marks.expires, marks.expiration)
    if any(text.encode() in octets for text in texts):
        msg = "a part of the message holds the task's id in a text of its own"
        raise NotPlain(msg)
    return octets
