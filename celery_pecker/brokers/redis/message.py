"""One entry's message as it lies in a Redis list: kombu's JSON envelope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.brokers.publisher.dispatch import Dispatch
from celery_pecker.brokers.publisher.expiry import Expiry
from celery_pecker.brokers.publisher.lanes import NoTemplate
from celery_pecker.brokers.publisher.message_template import MessageTemplate, Route
from celery_pecker.kernel.clock import new_tag


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMessage:
    """The JSON of one entry's message, twice: with and without an expiry."""

    route: Route
    priority: int
    expiry: Expiry
    plain: str
    dated: str

    @classmethod
    def of(cls, template: MessageTemplate, channel: Any) -> RedisMessage:
        """Return the text that kombu would push, with places for what differs."""
        message, route, marks = template.message, template.route, template.marks
        priority = channel._get_message_priority(message)  # noqa: SLF001 (kombu's rule)
        channel._inplace_augment_message(  # noqa: SLF001 (what basic_publish begins with)
            message, route.exchange, route.routing_key
        )
        message["properties"]["delivery_tag"] = marks.tag
        places = {
            f'"{marks.task_id}"': "%(id)s",
            f'"{marks.header}"': "%(header)s",
            f'"{marks.expires}"': "%(expires)s",
            marks.expiration: "%(expiration)s",
            marks.tag: "%(tag)s",
        }
        dated = _with_placeholders(dumps(message), places)
        message["headers"]["expires"] = None
        del message["properties"]["expiration"]
        return cls(
            route=route,
            priority=priority,
            expiry=template.expiry,
            plain=_with_placeholders(dumps(message), places),
            dated=dated,
        )

    def render(self, dispatch: Dispatch, header: str, now: datetime) -> bytes:
        """Return the bytes of the message for one slot."""
        stamp = self.expiry.stamp(now, dispatch.expires)
        fields = {
            "id": quoted(dispatch.task_id),
            "header": header,
            # new for each push: Redis's unacked messages are kept by this tag
            "tag": new_tag(),
        }
        if stamp is None:
            text = self.plain % fields
        else:
            fields["expires"] = quoted(stamp.header)
            fields["expiration"] = stamp.milliseconds
            text = self.dated % fields
        return text.encode("ascii")


def _with_placeholders(text: str, places: dict[str, str]) -> str:
    text = text.replace("%", "%%")
    for mark, place in places.items():
        text = text.replace(mark, place)
    for mark in places:
        if mark.strip('"') in text:
            msg = "a part of the message holds the task's id in a text of its own"
            raise NoTemplate(msg)
    return text
