"""The record of one task's message: built, kept in a table, and sent. Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message as Celery built it, in no transport's own form."""

    task: str
    task_id: str
    exchange: str
    routing_key: str
    priority: int | None
    content_type: str
    content_encoding: str
    declare: str | None
    """Queues and exchanges that Celery declares first, as JSON; None: none."""
    headers: str
    """As JSON; ``eta`` is null."""
    properties: str
    """As JSON."""
    body: bytes
    id: int = 0
    """Of its row; 0: it has none yet. Two messages may have one task's id."""
    delay: float | None = None
    """Of one without a row: seconds from the recording on; None: due at once."""

    @classmethod
    def stored(cls, row: Sequence[Any]) -> "Message":
        """Return the message of a row: its id, and the columns in their order."""
        return cls._make((*row[1:], row[0], None))

    def redated(self, now: datetime) -> dict[str, Any]:
        """Return the properties, of which `expiration` counts from now.

        Celery counted it from the call, and the message has waited since. One that has
        expired meanwhile has none: a worker then revokes it, where RabbitMQ would drop
        it without a word.

        Raises:
            ValueError: they are no JSON.
        """
        properties: dict[str, Any] = json.loads(self.properties)
        if properties.get("expiration") is None:
            return properties
        del properties["expiration"]
        until = json.loads(self.headers).get("expires")
        if isinstance(until, str):
            instant = datetime.fromisoformat(until)
            aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
            left = (aware - now).total_seconds()
            if left > 0:
                properties["expiration"] = str(int(left * 1000))
        return properties
