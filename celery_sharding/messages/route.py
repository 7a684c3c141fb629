"""Where messages of a job go: to the workers that take its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kombu import Queue

KEPT = ("exchange", "routing_key", "priority", "serializer", "compression")


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
    found: dict[str, Any] = app.amqp.router.route({}, task)
    return {**found, **route}


def _to_queue(app: Any, name: str, *, asked: bool) -> dict[str, Any]:
    known = app.amqp.queues
    if name in known or (asked and known.create_missing):
        return {"queue": name}
    # It is there, for a message came from it. Declared with other arguments than its
    # own it would be refused.
    return {"queue": Queue(name), "declare": []}
