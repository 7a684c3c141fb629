"""Read stored rows as messages that the publisher sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_pecker.brokers.publisher.stored_messages import StoredMessage
from celery_pecker.brokers.publisher.stored_messages.message import route_to
from celery_pecker.outbox.model import Row

MOST_ROUTES = 10_000


class Messages:
    """Rows as messages; a route is decoded once for all that take it."""

    def __init__(self, decode: Callable[[str | None], list[Any]]) -> None:
        self._decode = decode
        self._routes: dict[tuple[str, str, str | None], Any] = {}

    def read(self, row: Row, headers: str | None = None) -> StoredMessage:
        """Return a row as a message; raise ValueError if it cannot be read.

        Args:
            row: As it is stored.
            headers: Instead of those of the row.

        """
        where = (row.exchange, row.routing_key, row.declare)
        route = self._routes.get(where)
        if route is None:
            if len(self._routes) >= MOST_ROUTES:
                self._routes.clear()
            declare = tuple(self._decode(row.declare))
            route = self._routes[where] = route_to(*where[:2], declare)
        return StoredMessage(
            key=row.id,
            task=row.task,
            task_id=row.task_id,
            route=route,
            priority=row.priority,
            content_type=row.content_type,
            content_encoding=row.content_encoding,
            headers=row.headers if headers is None else headers,
            properties=row.properties,
            body=row.body,
        )
