"""Messages of sharded jobs. None is load-bearing: each says that there may be work.

    job     the user's own task, under the job's own task id: plans, runs Post, and lets
            Celery go on with what the job was called with
    ticket  `celery_sharding.work`, (job, ticket, seq): may run shards
    notify  `celery_sharding.notify`, (task id): a threshold of progress was crossed

Each may be lost, doubled and late: its receiver asks the ledger. So nothing here raises
because the broker is away: the sweeper sends again what was not taken.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kombu import Queue
from kombu.exceptions import OperationalError

from celery_pecker import deadline
from celery_pecker.kernel.clock import SYSTEM, new_tag
from celery_sharding.ledger.outcomes import Threshold
from celery_sharding.plan.arguments import HEADER

logger = logging.getLogger(__name__)

WORK = "celery_sharding.work"
"""A ticket: "job J may have work"."""
NOTIFY = "celery_sharding.notify"
"""The progress of a job crossed a threshold."""
SWEEP = "celery_sharding.sweep"
"""Repairs what dead processes left; the app's schedule sends it."""
PURGE = "celery_sharding.purge"
"""Removes jobs that ended long ago; the app's schedule sends it."""
SENT_BY = "sharding"
"""The header of a job's message: its sender."""
RESENT = "resent"
"""In that header: not the caller, but a process that moves the job on."""
OPTIONS = "sharding_options"
"""The header of a message that brings all of a call whose job is not submitted yet: the
options that the call changed."""
RUN = "sharding_run"
"""The header of a job's message that says which run of it is meant; absent: the first.
A message of an earlier run, delivered late, would go on with chain and links twice."""


ONLY_AFTER = ("link", "link_error", "chain", "chord", "group_id", "group_index")
"""What happens once, however often items of a job are run again."""
NOT_KEPT = (
    *("x-death", "x-first-death-", "x-last-death-", "x-delivery-count"),
    *("pecker", HEADER, OPTIONS),
)
"""Beginnings of headers that are of one message. RabbitMQ's: it may take the next one
for a cycle. The scheduler's: the message that is sent again would be dropped as a
second run of the slot, or struck at the deadline of the job's caller. Sources and
options: the job's row has them."""


SAME = (
    *("chain", "chord", "group_index", "root_id", "parent_id", "reply_to"),
    "stamped_headers",
)
"""What of a continuation has the same name in Celery's requests and messages."""


def followed(continuation: Mapping[str, Any], *, group: str) -> dict[str, Any]:
    """Return what follows by Celery's names, of which `group` is that of a group."""
    return {
        "callbacks": continuation.get("link"),
        "errbacks": continuation.get("link_error"),
        group: continuation.get("group_id"),
        **{name: continuation.get(name) for name in SAME},
    }


def from_request(request: Any) -> dict[str, Any]:
    """Return what a message of the job says of what follows; unknown is left out."""
    hard, soft = request.timelimit or (None, None)
    fields = {
        "link": request.callbacks,
        "link_error": request.errbacks,
        "group_id": request.group,
        **{name: getattr(request, name) for name in SAME},
        "shadow": request.shadow,
        "time_limit": hard,
        "soft_time_limit": soft,
        "headers": _headers(request),
        "replaced_task_nesting": request.replaced_task_nesting or None,
        "ignore_result": request.ignore_result or None,
        **_delivery(request.delivery_info or {}),
        **(request.stamps or {}),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _headers(request: Any) -> dict[str, Any] | None:
    stamps = {*(request.stamped_headers or ()), "stamped_headers", "stamps"}
    return {
        key: value
        for key, value in (request.headers or {}).items()
        if key not in stamps and not key.startswith(NOT_KEPT)
    } or None


def _delivery(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return where it came from: the same workers are to get what follows."""
    route: dict[str, Any] = {"priority": info.get("priority")}
    if info.get("routing_key"):
        if info.get("exchange"):
            route["exchange"] = info["exchange"]
            route["routing_key"] = info["routing_key"]
        else:  # the default exchange: routing keys are names of queues
            route["queue"] = info["routing_key"]
    return route


def without_links(continuation: Mapping[str, Any]) -> dict[str, Any]:
    """Return it without what follows: a later run only stores its result anew."""
    return {k: v for k, v in continuation.items() if k not in ONLY_AFTER}


def wait_of(options: Mapping[str, Any]) -> float:
    """Return the seconds until a message of these options may start.

    As Celery, an eta without a zone is UTC.
    """
    eta = options.get("eta")
    if isinstance(eta, str):
        eta = datetime.fromisoformat(eta)
    if not isinstance(eta, datetime):
        return 0.0
    if eta.tzinfo is None:
        eta = eta.replace(tzinfo=UTC)
    return max((eta - SYSTEM.now()).total_seconds(), 0.0)


KEPT = (
    *("exchange", "routing_key", "priority"),
    *("serializer", "compression", "delivery_mode"),
)


def route_of(
    app: Any, task: str, continuation: Mapping[str, Any], queue: str | None = None
) -> dict[str, Any]:
    """Return the options by which a message goes where the job's own came from.

    ``queue``: the job's options name one. Where nothing is known yet, the app's routes
    for the job's task decide.
    """
    route = {
        key: continuation[key] for key in KEPT if continuation.get(key) is not None
    }
    named = queue or continuation.get("queue")
    if named:
        route.pop("exchange", None)
        route.pop("routing_key", None)
        return {**route, **_to_queue(app, named, asked=queue is not None)}
    if "exchange" in route or "routing_key" in route:
        return route
    routed: dict[str, Any] = app.amqp.router.route({}, task)
    return {**routed, **route}


def _to_queue(app: Any, name: str, *, asked: bool) -> dict[str, Any]:
    known = app.amqp.queues
    if name in known or (asked and known.create_missing):
        return {"queue": name}
    return _there(name)


def _there(name: str) -> dict[str, Any]:
    # It is there: a message came from it, or a worker consumes from it. Declared with
    # other arguments than its own it would be refused.
    return {"queue": Queue(name), "declare": []}


def to_worker(route: Mapping[str, Any], direct: str) -> dict[str, Any]:
    """Return the same route to the queue that one worker alone consumes from."""
    kept = {
        key: value
        for key, value in route.items()
        if key not in {"exchange", "routing_key", "queue", "declare"}
    }
    return {**kept, **_there(direct)}


def queues_of(
    app: Any, task: str, continuation: Mapping[str, Any], queue: str | None = None
) -> Sequence[str] | None:
    """Return the queues by which messages of a job come to workers; None: not known.

    Arguments are those of `route_of`.
    """
    route = route_of(app, task, continuation, queue)
    named = route.get("queue")
    if named is not None:
        return [getattr(named, "name", named)]
    if "exchange" not in route and "routing_key" not in route:
        return [app.conf.task_default_queue]
    exchange, key = route.get("exchange"), route.get("routing_key")
    names = [
        name
        for name, known in app.amqp.queues.items()
        if known.routing_key == key
        and (not exchange or known.exchange.name == getattr(exchange, "name", exchange))
    ]
    return names or None


ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
"""A pooled connection may be dead without knowing; more retries are the sweeper's."""
ROUTED = {"exchange", "routing_key", "queue", "declare", "priority"}
NAMED_FIELDS = {
    *ROUTED,
    *SAME,
    *("link", "link_error", "group_id", "shadow", "time_limit", "soft_time_limit"),
    *("headers", "replaced_task_nesting", "ignore_result", "serializer"),
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


def send_notify(app: Any, of: Threshold) -> bool:
    """Send the message that Notify may be due; return whether the broker has it."""
    route = route_of(app, of.task, of.continuation, of.queue)
    message = _ours(app, NOTIFY, [of.task_id], root=of.continuation.get("root_id"))
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
        **followed(fields, group="group_id"),
        eta=None if begun else fields.get("eta"),
        expires=None if begun else fields.get("expires"),
        shadow=fields.get("shadow"),
        time_limit=fields.get("time_limit"),
        soft_time_limit=fields.get("soft_time_limit"),
        ignore_result=bool(fields.get("ignore_result")),
        replaced_task_nesting=fields.get("replaced_task_nesting") or 0,
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
