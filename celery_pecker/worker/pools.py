"""What the pool of a worker is, by one word."""

from __future__ import annotations

from typing import Any

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
