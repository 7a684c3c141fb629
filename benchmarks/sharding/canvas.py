"""Celery's own side: plain tasks for chords and `chunks`, as its documentation has it.

Acknowledged late and given back by a worker that is lost, which is Celery's advice for
tasks that must not be lost; no prefetching beyond what a process works on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
from celery import Celery

from benchmarks.peers.environment import given
from benchmarks.sharding.touched import Instants

KNOWN = {
    "BROKER": "memory://",
    "QUEUE": "canvas",
    "FOLDER": "/nowhere",
    "PREFETCH": "4",
    "LATE": "",
}
"""What such an app is given, and what it has where it is not."""


def build(known: dict[str, str]) -> Celery:
    """Return an app with the plain tasks."""
    known = {**KNOWN, **known}
    app = Celery("canvas", broker=known["BROKER"], backend=known["BROKER"])
    app.conf.update(
        task_default_queue=known["QUEUE"],
        task_acks_late=bool(known["LATE"]),
        task_reject_on_worker_lost=bool(known["LATE"]),
        worker_prefetch_multiplier=int(known["PREFETCH"]),
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        result_expires=900,
    )
    instants = Instants(Path(known["FOLDER"]))

    @app.task(name="canvas.nothing", shared=False)
    def nothing(items: list[int]) -> int:
        """Loop over the items."""
        for _ in items:
            pass
        return len(items)

    @app.task(name="canvas.pair", shared=False)
    def pair(*_items: int) -> None:
        """One item of `chunks`, which calls it for each of its arguments."""

    @app.task(name="canvas.slow", shared=False)
    def slow(number: int, seconds: float) -> int:
        """It takes so long, and says that it began."""
        instants.begun(number, number)
        time.sleep(seconds)
        return number

    @app.task(name="canvas.said", shared=False)
    def said(count: int, letters: int) -> list[str]:
        """Results of so many letters, of a shard of so many items."""
        return [f"{nth:0{letters}}" for nth in range(count)]

    @app.task(name="canvas.counted", shared=False)
    def counted(results: list[Any]) -> dict[str, Any]:
        """The body of a chord that looks at all results."""
        told = sum(len(one) if isinstance(one, list) else 1 for one in results)
        return {"results": told, "rss": psutil.Process().memory_info().rss}

    return app


if given("BROKER"):
    # a worker; who calls builds its own
    app = build({key: given(key) for key in KNOWN if given(key)})
