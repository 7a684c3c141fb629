"""One entry's message as py-amqp writes it: property bytes and a body."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from struct import pack
from typing import Any

from amqp.serialization import dumps

from celery_pecker.brokers.publisher.dispatch import Dispatch
from celery_pecker.brokers.publisher.expiry import Expiry
from celery_pecker.brokers.publisher.lanes import NoTemplate
from celery_pecker.brokers.publisher.message_template import (
    MessageTemplate,
    Placeholders,
    Route,
)


@dataclass(frozen=True, slots=True)
class Properties:
    """The property bytes of a message: fixed, a header table, fixed but for marks."""

    head: bytes
    table: bytes
    tail: bytes

    @classmethod
    def of(cls, message: Any, marks: Placeholders) -> Properties:
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
            _with_placeholders(table[4:], places, marks),
            _with_placeholders(raw[start + len(table) :], places, marks),
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
    def of(cls, template: MessageTemplate) -> RabbitMessage:
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


def _with_placeholders(
    octets: bytes, places: dict[bytes, bytes], marks: Placeholders
) -> bytes:
    octets = octets.replace(b"%", b"%%")
    for mark, place in places.items():
        octets = octets.replace(mark.replace(b"%", b"%%"), place)
    texts = (marks.task_id, marks.header, marks.expires, marks.expiration)
    if any(text.encode() in octets for text in texts):
        msg = "a part of the message holds the task's id in a text of its own"
        raise NoTemplate(msg)
    return octets
