"""What Celery goes on with when a job has ended, as a call says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from kombu.utils.json import dumps

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.codec import REFUSALS
from celery_sharding.errors import ItemNotSerializable

ONE = "pecker"
"""How headers begin that are of one message: the slot of a schedule that it is, and
what its sender had left. Another that said so would be refused, or struck."""
NOT_KEPT = frozenset(
    {
        "add_to_parent",
        "connection",
        "countdown",
        "producer",
        "publisher",
        "retry",
        "retry_policy",
        "retries",
        "route_name",
        "router",
        "task_id",
    }
)
"""Options that are about the sending of one message, or objects of this process."""


def timed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose times are instants: the message may be sent again later."""
    told = dict(options)
    for given, kept in (("countdown", "eta"), ("expires", "expires")):
        seconds = told.get(given)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            told.pop(given)
            told[kept] = SYSTEM.now() + timedelta(seconds=seconds)
    return told


def of_call(app: Celery, task_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the message will say, as Celery would fill it in.

    `options` are those of the call, `timed`, and the task's own.
    """
    told = {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in options.items()
        if key not in NOT_KEPT and value is not None
    }
    if "headers" in told:
        headers: Any = told["headers"]
        told["headers"] = {k: v for k, v in headers.items() if not k.startswith(ONE)}
    for key in ("link", "link_error"):
        if key in told and not isinstance(told[key], (list, tuple)):
            told[key] = [told[key]]
    for key in ("queue", "exchange"):
        given: Any = told.get(key)
        if hasattr(given, "name"):
            told[key] = given.name
    parent: Any = app.current_worker_task
    if parent and not told.get("parent_id"):
        told["parent_id"] = parent.request.id
    if parent and not told.get("root_id"):
        told["root_id"] = parent.request.root_id or parent.request.id
    told.setdefault("root_id", task_id)
    try:
        plain: dict[str, Any] = json.loads(dumps(told))
    except REFUSALS as error:
        message = f"what a sharded job is called with must be JSON, links too: {error}"
        raise ItemNotSerializable(message) from error
    return plain
