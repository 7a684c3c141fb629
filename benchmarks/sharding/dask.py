"""dask.distributed's side: a program of its own, which writes what it measured.

    python -m benchmarks.sharding.dask many 10000 2
    python -m benchmarks.sharding.dask kill FOLDER ITEMS SECONDS
    python -m benchmarks.sharding.dask poison ITEMS PER_TASK

Two worker processes of one thread, on this machine, with a nanny each that starts them
again; no dashboard. Items of a shard travel in the task: dask has no ledger.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed

from benchmarks.sharding.touched import Instants, earliest_after, read

WARM = 100
dask: Any = distributed
"""It says that it is typed, and is not."""


def loop(items: list[int]) -> int:
    """Loop over the items."""
    for _ in items:
        pass
    return len(items)


def slow(number: int, seconds: float, folder: str) -> int:
    """It takes so long, and says that it began."""
    Instants(Path(folder)).begun(number, number)
    time.sleep(seconds)
    return number


def poisoned(first: int, items: int, poison: int) -> int:
    """One of the items kills its process."""
    for item in range(first, first + items):
        if item == poison:
            os.kill(os.getpid(), signal.SIGKILL)
    return items


@contextmanager
def _client() -> Iterator[tuple[Any, Any]]:
    with (
        dask.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        client.gather(client.map(loop, [[nth] for nth in range(WARM)], pure=False))
        yield cluster, client


def many(shards: int, items: int) -> dict[str, Any]:
    """Return how long so many shards of so many items take."""
    given = [[nth] * items for nth in range(shards)]
    with _client() as (_, client):
        began = time.perf_counter()
        futures = client.map(loop, given, pure=False)
        submitted = time.perf_counter()
        told = sum(client.gather(futures))
        ended = time.perf_counter()
    if told != shards * items:
        message = f"{told} items of {shards * items} came back"
        raise RuntimeError(message)
    return {"submit_s": submitted - began, "total_s": ended - began}


def kill(folder: str, items: int, seconds: float) -> dict[str, Any]:
    """Return how long after the death of one of two workers its task runs again."""
    path = Path(folder)
    with _client() as (cluster, client):
        futures = client.map(
            slow, range(items), seconds=seconds, folder=folder, pure=False
        )
        while len(read(path)) < 2 or sum(map(len, read(path).values())) < items // 4:
            time.sleep(0.01)
        victim = cluster.workers[0].pid
        held = int(read(path)[victim]["nr"][-1])
        killed = time.time()
        os.kill(victim, signal.SIGKILL)
        dask.wait(futures, timeout=120)
        done = sum(one.status == "finished" for one in futures)
        again = [
            float(one["began"])
            for runs in read(path).values()
            for one in runs
            if one["nr"] == held and one["began"] > killed
        ]
        ended = time.time()
    return {
        "again_s": min(again) - killed if again else None,
        "first_s": (earliest_after(path, killed) or killed) - killed,
        "completed": done == items,
        "total_after_s": ended - killed,
    }


def poison(items: int, each: int) -> dict[str, Any]:
    """Return what is said of a task that kills its process."""
    with _client() as (_, client):
        futures = client.map(
            poisoned,
            range(0, items, each),
            items=each,
            poison=items // 2 + 7,
            pure=False,
        )
        dask.wait(futures, timeout=300)
        failed = [one for one in futures if one.status == "error"]
        kinds = {type(one.exception()).__name__ for one in failed}
    return {
        "reported": len(failed),
        "reported_items": len(failed) * each,
        "kinds": sorted(kinds),
        "killed_worker": dask.KilledWorker.__name__ in kinds,
    }


def main(words: list[str]) -> int:
    """Measure what the words say; the figures are JSON on the standard output."""
    what, *rest = words
    match what:
        case "many":
            told = many(int(rest[0]), int(rest[1]))
        case "kill":
            told = kill(rest[0], int(rest[1]), float(rest[2]))
        case "poison":
            told = poison(int(rest[0]), int(rest[1]))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
