"""A million items in four layers and 2,000 shards on two cores: what is not their own.

Coordination of an item: what the whole took on all cores, less what the same items take
in a plain loop, by the number of items. *list*: PreProcess returns the items, which the
ledger keeps; *source*: it names ranges of keys. *results*: each item has a result of
200 letters, which Post reads.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.sharding import ledger, ours
from benchmarks.sharding.field import Field

ROW = "sharding_items"
LAYERS = 4
WORKERS = 2
GIVEN_UP = 600.0
KINDS = {
    "list": ("ours.layered", "list"),
    "source": ("ours.layered", "source"),
    "results": ("ours.kept", "source"),
}
SEEN = {"ours.layered": "done", "ours.kept": "results"}
"""Where the job's answer says how many items it saw."""


def run(run: Run) -> None:
    """Measure each kind."""
    for kind in KINDS:
        run.trial(ROW, kind, 60, partial(measure, run, kind), kind=kind)


def measure(run: Run, kind: str) -> Sample:
    """Return µs of coordination for an item, and the parts of the whole."""
    items, cores = run.plan.items, min(os.cpu_count() or 1, WORKERS)
    name, way = KINDS[kind]
    alone = loop(items)
    with Field(run.servers, run.tell) as field:
        field.start(WORKERS)
        app: Any = ours.build(field.given())
        task = app.tasks[name]
        task.delay(4_000, LAYERS, way).get(timeout=60)
        before, began = field.cpu(), time.perf_counter()
        result = task.delay(items, LAYERS, way)
        value = result.get(timeout=GIVEN_UP)
        makespan = time.perf_counter() - began
        cpu = {who: spent - before[who] for who, spent in field.cpu().items()}
        if value[SEEN[name]] != items:
            message = f"{value[SEEN[name]]} of {items} items were done"
            raise RuntimeError(message)
        parts = ledger.parts(run.servers.dsn, field.name, result.id)
        app.close()
    return {
        "items": items,
        "shards": items // 500,
        "layers": LAYERS,
        "cores": cores,
        "makespan_s": round(makespan, 2),
        "alone_s": round(alone, 3),
        "us": round((makespan * cores - alone) / items * 1e6, 2),
        "parts": parts,
        "cpu_us": {who: round(spent / items * 1e6, 2) for who, spent in cpu.items()},
    }


def loop(items: int) -> float:
    """Return the seconds of the same items in a plain loop."""
    given = [*range(items)]
    began = time.perf_counter()
    ours.work(given)
    return time.perf_counter() - began
