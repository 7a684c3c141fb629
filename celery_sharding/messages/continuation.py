"""What Celery is to go on with when a job has ended, as JSON in the ledger.

Its keys are options of `apply_async`: link, link_error, chain, chord, group_id, … It is
made from a call (canvas) and again from the message that arrived, which knows more: the
part of a chain that follows, the chord it is in, the queue it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.messages.names import OPTIONS
from celery_sharding.plan.arguments import HEADER

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


def from_request(request: Any) -> dict[str, Any]:
    """Return what a message of the job says of what follows; unknown is left out."""
    hard, soft = request.timelimit or (None, None)
    fields = {
        "link": request.callbacks,
        "link_error": request.errbacks,
        "chain": request.chain,
        "chord": request.chord,
        "group_id": request.group,
        "group_index": request.group_index,
        "root_id": request.root_id,
        "parent_id": request.parent_id,
        "shadow": request.shadow,
        "time_limit": hard,
        "soft_time_limit": soft,
        "headers": _headers(request),
        "reply_to": request.reply_to,
        "replaced_task_nesting": request.replaced_task_nesting or None,
        "stamped_headers": request.stamped_headers,
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
