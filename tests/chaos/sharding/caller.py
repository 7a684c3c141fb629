"""A process that calls jobs, one after the other, until it is killed.

    python -m tests.chaos.sharding.caller

Before a call it writes down what it is about to call, after it that it returned. It
holds back while many jobs are open.
"""

from __future__ import annotations

import secrets
import sys

from celery import chain

from celery_pecker.kernel.clock import new_id, pause
from tests import constants
from tests.chaos.sharding.app import (
    CHAINED,
    INLINE,
    LINKED,
    app,
    given,
    layered,
    next_step,
    note,
    planned,
)

OPEN = 6
"""Jobs that all callers together leave open."""
READY = "calling"
constants.take()
NOT_ENDED = "select count(*) from pecker_jobs where stage <> 'ended'"


def call(way: str, items: int, task_id: str) -> None:
    """Call a job in that way, under that id."""
    match way:
        case "linked":
            planned.apply_async((items,), task_id=task_id, link=next_step())
        case "inline":
            given.apply_async((layered(items),), task_id=task_id, link=next_step())
        case "chained":
            chain(planned.s(items).set(task_id=task_id), next_step()).apply_async()


def main() -> int:
    """Call jobs for ever."""
    app.finalize()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    while True:
        while note(NOT_ENDED) >= OPEN:
            pause(0.05)
        task_id = str(new_id())
        way = secrets.choice((LINKED, INLINE, CHAINED))
        items = 30 + secrets.randbelow(120)
        note(
            "insert into chaos_called (task_id, way, items) values (%s, %s, %s)",
            *(task_id, way, items),
        )
        call(way, items, task_id)
        note(
            "update chaos_called set returned = clock_timestamp() where task_id = %s",
            task_id,
        )


if __name__ == "__main__":
    sys.exit(main())
