"""Where messages of a job go: to the workers that take its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu import Queue

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
