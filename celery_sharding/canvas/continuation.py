"""What Celery goes on with when a job has ended, as a call names it."""

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
what its sender had left. Another with such a header would be refused, or struck."""
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
    """Return options whose times are instants: the message may be resent later."""
    fields = dict(options)
    for option, kept in (("countdown", "eta"), ("expires", "expires")):
        seconds = fields.get(option)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            fields.pop(option)
            fields[kept] = SYSTEM.now() + timedelta(seconds=seconds)
    return fields


def of_call(app: Celery, task_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message's fields, as Celery would fill it in.

    `options` are those of the call, `timed`, and the task's own.
    """
    fields = {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in options.items()
        if key not in NOT_KEPT and value is not None
    }
    if "headers" in fields:
        headers: Any = fields["headers"]
        fields["headers"] = {k: v for k, v in headers.items() if not k.startswith(ONE)}
    for key in ("link", "link_error"):
        if key in fields and not isinstance(fields[key], (list, tuple)):
            fields[key] = [fields[key]]
    for key in ("queue", "exchange"):
        option: Any = fields.get(key)
        if hasattr(option, "name"):
            fields[key] = option.name
    parent: Any = app.current_worker_task
    if parent and not fields.get("parent_id"):
        fields["parent_id"] = parent.request.id
    if parent and not fields.get("root_id"):
        fields["root_id"] = parent.request.root_id or parent.request.id
    fields.setdefault("root_id", task_id)
    try:
        plain: dict[str, Any] = json.loads(dumps(fields))
    except REFUSALS as error:
        message = f"what a sharded job is called with must be JSON, links too: {error}"
        raise ItemNotSerializable(message) from error
    return plain
