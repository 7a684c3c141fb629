"""Celery builds a message, and it is kept instead of sent.

Router, defaults of the task, serializer, compression, priority, stamps, headers and
signals are all Celery's and kombu's: its own `send_task` runs on a producer whose
channel keeps what it gets. What is kept is in no transport's own form, so that it can
be delivered by any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from celery.result import denied_join_result
from kombu import Connection
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from celery_pecker import deadline
from celery_pecker.brokers.publisher.stored_messages import entities
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.errors import NotRecorded

_kept: ContextVar[list[Message] | None] = ContextVar("kept", default=None)
_NOWHERE = Connection("memory://")
"""What a producer is asked for and nothing is sent over."""
_DECLARED = "pecker: declared"


@contextmanager
def capturing() -> Iterator[list[Message]]:
    """Yield the list that messages built inside the block are kept in.

    They are work of their own: they do not inherit the deadline of the run that records
    them, and no result backend is notified, since no caller waits.

    Raises:
        NotRecorded: an argument, header or option cannot be serialized.
    """
    kept: list[Message] = []
    token = _kept.set(kept)
    try:
        with deadline.detached(), denied_join_result():
            yield kept
    except EncodeError as error:
        message = f"an argument cannot be serialized: {error}"
        raise NotRecorded(message) from error
    finally:
        _kept.reset(token)


def producer_for(app: Any) -> Any:
    """Return the app's own kind of producer, on a channel that keeps messages."""
    kind: Any = type("Keeping", (_CapturingProducer, app.amqp.Producer), {})
    return kind(_Channel(), auto_declare=False)


class _CapturingProducer:
    """Laid over the app's producer: nothing is declared, nothing is asked of a broker.

    One producer serves all threads: what a message needs declared travels with it.
    """

    connection = _NOWHERE

    def publish(self, body: Any, **options: Any) -> Any:
        """Keep the message and what would be declared for it."""
        options[_DECLARED] = list(options.pop("declare", None) or ())
        # A retry is the deliverer's; kombu would ask the connection for it.
        options["retry"] = False
        return super().publish(body, **options)  # type: ignore[misc]


class _Channel:
    """Keeps what it is asked to publish."""

    connection = None

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> tuple[Any, ...]:
        """Return what a message is made of."""
        return body, priority, content_type, content_encoding, headers, properties

    def basic_publish(
        self, message: Any, exchange: Any, routing_key: str | None, **_: object
    ) -> None:
        """Keep a task's message; of others (events) nothing is recorded."""
        kept = _kept.get()
        body, priority, content_type, content_encoding, headers, properties = message
        properties = dict(properties or {})
        declare = properties.pop(_DECLARED, ())
        if kept is None:
            text = "the producer of the outbox was used outside of the outbox"
            raise NotRecorded(text)
        if not headers or "task" not in headers:
            return
        kept.append(
            Message(
                task=str(headers["task"]),
                task_id=str(headers["id"]),
                exchange=str(exchange or ""),
                routing_key=str(routing_key or ""),
                priority=priority,
                content_type=content_type or "",
                content_encoding=content_encoding or "",
                declare=_encoded(entities.encode, declare, "declare"),
                headers=_encoded(dumps, headers, "headers"),
                properties=_encoded(dumps, properties, "properties"),
                body=_bytes(body, content_encoding),
            )
        )


def _encoded(encode: Any, value: Any, field: str) -> Any:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:
        message = f"{field} of the message cannot be kept as JSON: {error}"
        raise NotRecorded(message) from error


def _bytes(body: Any, encoding: str | None) -> bytes:
    if isinstance(body, bytes):
        return body
    return str(body).encode(encoding if encoding not in {None, "binary"} else "utf-8")
