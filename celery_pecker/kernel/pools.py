"""What the pool of a worker is, by one word."""

from __future__ import annotations

from typing import Any

from billiard import get_start_method

KINDS = {
    "celery.concurrency.prefork": "prefork",
    "celery.concurrency.thread": "threads",
    "celery.concurrency.gevent": "gevent",
    "celery.concurrency.eventlet": "eventlet",
    "celery.concurrency.solo": "solo",
}


def kind_of(pool: Any) -> str:
    """Return the kind of a pool class, that of its nearest known ancestor."""
    for one in getattr(pool, "__mro__", ()):
        if one.__module__ in KINDS:
            return KINDS[one.__module__]
    return str(pool)


def spawns(worker: Any) -> bool:
    """Return whether the processes of its pool are fresh interpreters."""
    method = getattr(worker, "pool_start_method", "fork")  # new in Celery 5.7
    return method != "fork" or get_start_method() != "fork"
