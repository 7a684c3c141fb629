"""The app of our workers: sharded tasks of the sizes and kinds that are measured."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from celery import Celery

import celery_sharding
from benchmarks.peers.environment import given
from benchmarks.sharding import memory
from benchmarks.sharding.touched import Counts, Instants

LETTERS = 200
"""Of a result, where Post's memory is looked at."""
KNOWN = {
    "BROKER": "memory://",
    "QUEUE": "ours",
    "DSN": "",
    "SCHEMA": "public",
    "FOLDER": "/nowhere",
    "LEASE": "15",
    "POISON": "-1",
    "ITEMS": "0",
    "SECONDS": "0",
}
"""What an app of ours is given, and what it has where it is not."""


def work(items: Any) -> int:
    """Go over items as a processor does that has hardly anything to do with each."""
    told = 0
    for item in items:
        told = (told * 31 + item) % 1_000_003
    return told


def build(known: dict[str, str]) -> Celery:
    """Return an app with the sharded tasks."""
    known = {**KNOWN, **known}
    app = Celery("ours", broker=known["BROKER"], backend=known["BROKER"])
    app.conf.update(
        task_default_queue=known["QUEUE"],
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        result_expires=900,
        pecker_dsn=known["DSN"],
        pecker_schema=known["SCHEMA"],
        pecker_worker={"scheduler"},
        sharding_lease=float(known["LEASE"]),
    )
    sharding = celery_sharding.Sharding(app)
    _small(sharding)
    _planned(sharding)
    _watched(sharding, known)
    return app


def _small(sharding: Any) -> None:
    """Tasks that do nothing, by the size of a shard."""
    for size in (2, 100):

        @sharding.task(name=f"ours.nothing{size}", size=(size, size), shared=False)
        def nothing(shard: Any) -> None:
            for _ in shard:
                pass

    @sharding.task(name="ours.submitted", size=(50, 2_000), shared=False)
    def submitted(shard: Any) -> None:
        """A job that nobody runs."""
        del shard


def layers_of(items: int, layers: int, kind: str) -> list[Any]:
    """Return so many layers: ranges of keys for `source`, else the items."""
    each = items // layers
    bounds = [(nth * each, (nth + 1) * each) for nth in range(layers)]
    if kind == "source":
        return [celery_sharding.KeyRange(first, last - 1) for first, last in bounds]
    return [[*range(first, last)] for first, last in bounds]


def _planned(sharding: Any) -> None:
    """Tasks whose items PreProcess makes, in layers."""

    @sharding.task(name="ours.planned", size=(50, 2_000), shared=False)
    def planned(shard: Any) -> None:
        work(shard)

    @planned.pre_process
    def _items(job: Any, items: int) -> Any:
        del job
        return range(items)

    @sharding.task(name="ours.layered", size=(500, 500), shared=False)
    def layered(shard: Any) -> None:
        work(shard)

    @layered.pre_process
    def _layers(job: Any, items: int, layers: int, kind: str) -> list[Any]:
        del job
        return layers_of(items, layers, kind)

    @sharding.task(name="ours.kept", size=(500, 500), shared=False)
    def kept(shard: Any) -> None:
        for item in shard:
            shard.ok(f"{item:0{LETTERS}}")

    @kept.pre_process
    def _kept(job: Any, items: int, layers: int, kind: str) -> list[Any]:
        del job
        return layers_of(items, layers, kind)

    @kept.post_process
    def _report(job: Any, results: Iterator[Any], errors: Iterator[Any]) -> Any:
        del job
        began = time.perf_counter()
        with memory.growth() as grown:
            seen = sum(1 for _ in results)
            failed = sum(1 for _ in errors)
        return {
            "results": seen,
            "errors": failed,
            "grown": grown.bytes,
            "seconds": time.perf_counter() - began,
        }


def _watched(sharding: Any, known: dict[str, str]) -> None:
    """Tasks that write down what they began, outside of their process."""
    folder = Path(known["FOLDER"])
    instants = Instants(folder)
    poison, seconds = int(known["POISON"]), float(known["SECONDS"])

    for size in (1, 25):

        @sharding.task(name=f"ours.slow{size}", size=(size, size), shared=False)
        def slow(shard: Any) -> None:
            for item in shard:
                instants.begun(item, shard.number)
                time.sleep(seconds)

        @slow.pre_process
        def _items(job: Any, items: int) -> Any:
            del job
            return [*range(items)]

        @slow.post_process
        def _post(job: Any, results: Any, errors: Any) -> list[int]:
            del job, results
            return [os.getpid(), len([*islice(errors, 1_000)])]

    @sharding.task(name="ours.poisoned", size=(500, 500), shared=False)
    def poisoned(shard: Any) -> None:
        counts = Counts(folder / "counts", int(known["ITEMS"]))
        begun = counts.bytes
        for item in shard:
            begun[item] = min(begun[item] + 1, 255)
            if item == poison:
                os.kill(os.getpid(), signal.SIGKILL)
        counts.close()

    @poisoned.pre_process
    def _all(job: Any, items: int) -> Any:
        del job
        return celery_sharding.KeyRange(0, items - 1)


if given("BROKER"):
    # a worker; who calls builds its own
    app = build({key: given(key) for key in KNOWN if given(key)})
