"""Requests that wait in the worker and are not reserved: scheduled, as Celery says.

Reserved ones would make the autoscaler grow the pool, and stop a worker with
`worker_disable_prefetch`. Celery keeps the list from 5.7 on, and clears it when the
connection is lost; before, it is kept in this worker.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from celery.worker import state as _state

_celery: Any = _state
_KEPT = hasattr(_celery, "scheduled_requests")
requests: Any = _celery.scheduled_requests if _KEPT else WeakSet()


def add(request: Any) -> None:
    """Schedule a request that was reserved."""
    _celery.reserved_requests.discard(request)
    requests.add(request)


def reserve(request: Any) -> None:
    """Reserve a request that was scheduled: it goes to the pool now."""
    requests.discard(request)
    _celery.task_reserved(request)


def has(request: Any) -> bool:
    """Return whether a request is scheduled still: neither let through nor dropped."""
    if request not in requests:
        return False
    return _KEPT or not getattr(request, "_already_revoked", False)


def clear() -> None:
    """Drop all requests where Celery does not: their connection is lost."""
    if _KEPT:
        return
    for one in tuple(requests):
        if _celery.requests.get(one.id) is one:
            del _celery.requests[one.id]
    requests.clear()
