"""The app under chaos: jobs that say in tables of their own what happened to them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_sharding import Sharding
from tests.chaos.sharding.tables import BAD, EVERY, ask, next_queue
from tests.chaos.sharding.windows import Windows

LINKED, INLINE, CHAINED = "linked", "inline", "chained"

conf: dict[str, Any] = json.loads(os.environ["PECKER_CHAOS_CONF"])
role = os.environ["PECKER_CHAOS_ROLE"]
app = Celery("sharding-chaos")
app.conf.update(conf)
sharding = Sharding(app)
Windows(Path(os.environ["PECKER_CHAOS_FOLDER"]), role).open()


def note(query: str, *given: object) -> Any:
    """It stands in a table; return the first column of the row, if there is one."""
    rows = ask(app.conf.pecker_dsn, query, *given)
    return rows[0][0] if rows else None


def run_items(shard: Any) -> None:
    """Take a while over each item; some fail."""
    for item in shard:
        pause(0.004)
        if item % BAD == BAD - 1:
            message = f"{item} is bad"
            raise ValueError(message)
        shard.ok(item)


def report(job: Any, results: Iterator[Any], errors: Iterator[Any]) -> dict[str, Any]:
    """Say that a Post began, what it saw, and that it came to its end."""
    token = note(
        "insert into chaos_posts (task_id, pid, pgid) values (%s, %s, %s)"
        " returning token",
        *(job.id, os.getpid(), os.getpgrp()),
    )
    seen = sorted(results)
    failed = sorted((one.item, int(one.code)) for one in errors)
    note("update chaos_posts set ended = clock_timestamp() where token = %s", token)
    return {"task_id": job.id, "token": token, "results": seen, "failed": failed}


def tell(job: Any, progress: Any) -> None:
    """Say that a threshold was told."""
    note(
        "insert into chaos_notes (task_id, percent) values (%s, %s)",
        *(job.id, progress.percent),
    )


SHAPE: dict[str, Any] = {"size": (4, 12), "concurrency": 4, "notify_every": EVERY}
planned = sharding.task(name="chaos.planned", **SHAPE)(run_items)
given = sharding.task(name="chaos.given", **SHAPE)(run_items)
for task in (planned, given):
    task.post_process(report)
    task.notify(every=EVERY)(tell)


@planned.pre_process
def plan(job: Any, items: int) -> list[list[int]]:
    """Return two layers."""
    del job
    pause(0.02)
    return layered(items)


def layered(items: int) -> list[list[int]]:
    """Return so many items in two layers."""
    third = items // 3
    return [[*range(third)], [*range(third, items)]]


@app.task(name="chaos.next", ignore_result=True)
def following(value: dict[str, Any]) -> None:
    """Nobody runs it: its messages are counted where they lie."""


def next_step() -> Any:
    """Return what follows a job, on a queue that no worker takes from.

    A plain task that a killed worker had taken would be lost, or come an hour later.
    """
    return following.s().set(queue=next_queue(app.conf.task_default_queue))
