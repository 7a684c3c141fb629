"""From a task to its subtasks: what is left of the deadline goes with each message.

Opted out of per call with `headers={"pecker_deadline": None}`, and for a block with
`deadline.detached()`. A message whose eta lies behind the deadline is not of this run:
it is work for later, and would only be refused. What Celery sends after a task's
function has ended (links, the next step of a chain, the body of a chord) is not sent
under its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from celery import signals

from celery_pecker import deadline
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.runs import headers as message_headers
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.run import current

UID = "celery_pecker.runs"
"""By this name the publisher knows the receiver, and keeps to its fast lane."""

INSTANTS = Instants(SYSTEM)
"""The database's clock as this process knows it."""


def connect() -> None:
    """Send the deadline with each message that is sent under one; may be repeated."""
    signals.before_task_publish.connect(_on_publish, dispatch_uid=UID, weak=False)


def _on_publish(headers: dict[str, Any] | None = None, **_: object) -> None:
    """Add the header. A retry's is older, and its own run's, whose `pecker` counts."""
    if headers is None:
        return
    value = headers.get(message_headers.DEADLINE, ...)
    if value is None:
        del headers[message_headers.DEADLINE]
        return
    left = deadline.remaining()
    if left is None or _is_slot(headers):
        return
    if value is ... and headers.get("eta") and _waits(headers["eta"], left):
        return
    if isinstance(value, Mapping):
        left = min(left, float(value.get("left", left)))
    headers[message_headers.DEADLINE] = message_headers.deadline_header(
        left, INSTANTS.after(left), current()
    )


def _waits(eta: object, left: float) -> bool:
    """Return whether the message is for a time when nothing is left.

    An eta is of the sender's host clock, and in UTC where it names no zone.
    """
    try:
        instant = datetime.fromisoformat(str(eta))
    except ValueError:
        return False
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - SYSTEM.now()).total_seconds() >= left


def _is_slot(headers: Mapping[str, Any]) -> bool:
    """Return whether the message is the slot's own: its deadline stands in it."""
    run = current()
    header = headers.get(message_headers.PECKER)
    mine = None if run is None else message_headers.read(header, schema=run.schema)
    return mine is not None and message_headers.belongs(mine, headers.get("id"))
