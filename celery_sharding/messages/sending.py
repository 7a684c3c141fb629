"""Publishing: one message, or the tickets of a job on one connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kombu.exceptions import OperationalError

from celery_pecker import deadline
from celery_pecker.kernel.clock import new_tag
from celery_sharding.messages.continuation import without_links
from celery_sharding.messages.names import NOTIFY, RESENT, RUN, SENT_BY, WORK
from celery_sharding.messages.route import route_of, to_worker

logger = logging.getLogger(__name__)

ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
"""A pooled connection may be dead without knowing; more retries are the sweeper's."""
ROUTED = {"exchange", "routing_key", "queue", "declare", "priority"}
NAMED_FIELDS = {
    *ROUTED,
    *("link", "link_error", "chain", "chord", "group_id", "group_index", "root_id"),
    *("parent_id", "shadow", "time_limit", "soft_time_limit", "headers", "reply_to"),
    *("replaced_task_nesting", "stamped_headers", "ignore_result", "serializer"),
    *("compression", "expires", "eta", "countdown", "retries"),
}
"""What of a continuation has a place of its own in a message; all else are stamps."""


def as_called(continuation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers and the properties that the call gave the job's message."""
    headers: Mapping[str, Any] = continuation.get("headers") or {}
    return {
        "headers": {k: v for k, v in headers.items() if not k.startswith(SENT_BY)},
        "properties": {k: v for k, v in continuation.items() if k not in NAMED_FIELDS},
    }


def send_tickets(
    app: Any,
    task: str,
    tickets: Sequence[tuple[int, int, int]],
    *,
    continuation: Mapping[str, Any],
    queue: str | None = None,
    direct: str | None = None,
) -> bool:
    """Send the tickets, each (job, ticket, seq); return whether the broker has them.

    ``task`` and ``continuation`` are the job's, ``queue`` that of its options.
    ``direct``: the queue of the one worker that is to have them.
    """
    route = route_of(app, task, continuation, queue)
    if direct is not None:
        route = to_worker(route, direct)
    sent = [_ours(app, WORK, [*ticket], root=None) for ticket in tickets]
    return _publish(app, WORK, sent, route)


def send_notify(
    app: Any,
    task: str,
    task_id: str,
    *,
    continuation: Mapping[str, Any],
    queue: str | None = None,
) -> bool:
    """Send the message that Notify may be due; return whether the broker has it."""
    route = route_of(app, task, continuation, queue)
    message = _ours(app, NOTIFY, [task_id], root=continuation.get("root_id"))
    return _publish(app, NOTIFY, [message], route)


def send_job(
    app: Any,
    task: str,
    task_id: str,
    *,
    continuation: Mapping[str, Any],
    run: int = 1,
    begun: bool = True,
) -> bool:
    """Send the job's own message, with all that follows; return whether it went.

    In a later run nothing follows: chain, chord and links had their turn. ``begun``:
    the job waits for no countdown any more, and does not expire.
    """
    fields = dict(continuation) if run == 1 else without_links(continuation)
    message = app.amqp.create_task_message(
        task_id,
        task,
        (),
        {},
        callbacks=fields.get("link"),
        errbacks=fields.get("link_error"),
        chain=fields.get("chain"),
        chord=fields.get("chord"),
        group_id=fields.get("group_id"),
        group_index=fields.get("group_index"),
        root_id=fields.get("root_id"),
        parent_id=fields.get("parent_id"),
        eta=None if begun else fields.get("eta"),
        expires=None if begun else fields.get("expires"),
        shadow=fields.get("shadow"),
        time_limit=fields.get("time_limit"),
        soft_time_limit=fields.get("soft_time_limit"),
        reply_to=fields.get("reply_to"),
        ignore_result=bool(fields.get("ignore_result")),
        replaced_task_nesting=fields.get("replaced_task_nesting") or 0,
        stamped_headers=fields.get("stamped_headers"),
        create_sent_event=app.conf.task_send_sent_event,
        **{key: value for key, value in fields.items() if key not in NAMED_FIELDS},
    )
    headers = {**(fields.get("headers") or {}), SENT_BY: RESENT, RUN: run}
    registered = app.tasks.get(task)
    route = {
        "serializer": getattr(registered, "serializer", None),
        "compression": getattr(registered, "compression", None),
        **route_of(app, task, fields),
        "headers": headers,
    }
    return _publish(app, task, [message], route)


def _ours(app: Any, name: str, args: list[Any], *, root: str | None) -> Any:
    task_id = new_tag()
    return app.amqp.create_task_message(
        task_id,
        name,
        args,
        {},
        root_id=root,
        ignore_result=True,
        create_sent_event=app.conf.task_send_sent_event,
    )


def _publish(
    app: Any, name: str, messages: Sequence[Any], route: Mapping[str, Any]
) -> bool:
    """Send them over one pooled connection; what the broker refuses is logged."""
    try:
        # Not under the sender's deadline: the sweeper's run has a second, and a
        # ticket that inherited what is left of it was struck in the middle of a batch.
        with deadline.detached(), app.producer_pool.acquire(block=True) as producer:
            for message in messages:
                app.amqp.send_task_message(
                    producer, name, message, retry_policy=ONCE_MORE, **route
                )
    except _errors(app) as error:
        logger.warning(
            "sharding: %d of %s not sent, the sweeper sends again: %s",
            len(messages),
            name,
            error,
        )
        return False
    return True


def _errors(app: Any) -> tuple[type[Exception], ...]:
    """Return what this broker's client raises when it is away."""
    connection = app.connection_for_write()
    theirs: tuple[type[Exception], ...] = (
        *connection.connection_errors,
        *connection.channel_errors,
    )
    return OperationalError, OSError, *theirs
