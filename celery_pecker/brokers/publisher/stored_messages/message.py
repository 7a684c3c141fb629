"""A stored message, in no transport's own form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from celery_pecker.brokers.publisher.message_template import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """What Celery built at the call."""

    key: int
    """Names it among others; two messages may have one task's id."""
    task: str
    task_id: str
    route: Route
    priority: int | None
    content_type: str
    content_encoding: str
    headers: str
    """As JSON of kombu."""
    properties: str
    """As JSON of kombu."""
    body: bytes


def route_to(exchange: str, routing_key: str, declare: tuple[Any, ...]) -> Route:
    """Return where a message goes.

    One for a queue by its name is to be returned if there is no such queue: RabbitMQ
    would drop it. To an exchange with nothing bound to it messages may be sent.
    """
    return Route(
        exchange=exchange,
        routing_key=routing_key,
        mandatory=not exchange,
        immediate=False,
        declare=declare,
    )


def redated(message: StoredMessage, now: datetime) -> dict[str, Any]:
    """Return the properties, of which `expiration` counts from now.

    Celery counted it from the call, and the message has waited since. One that has
    expired meanwhile has none: a worker then revokes it, where RabbitMQ would drop it
    without a word.

    Raises:
        ValueError: they are no JSON.

    """
    properties: dict[str, Any] = json.loads(message.properties)
    if properties.get("expiration") is None:
        return properties
    del properties["expiration"]
    until = json.loads(message.headers).get("expires")
    if isinstance(until, str):
        instant = datetime.fromisoformat(until)
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        left = (aware - now).total_seconds()
        if left > 0:
            properties["expiration"] = str(int(left * 1000))
    return properties
