"""Very many messages through the table, while somebody holds a snapshot open.

They come in lots, each of which is delivered before the next. Looked at are the size of
the table with its indexes, and what a claim of a new relay costs after each lot.

The transaction that holds the snapshot has a number of its own, as one that writes
elsewhere has: that is worse than one that only reads.
"""

from __future__ import annotations

import time
import uuid
from functools import partial

import numpy as np
import psycopg

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches

ROW = "outbox_million"
LOT = 20_000
WAYS = {"nobody holds a snapshot": False, "a snapshot is held": True}
EACH = 5
"""Claims after a lot, of which the median counts."""
FIFTH = 5


def run(run: Run) -> None:
    """Measure both ways."""
    rows = run.plan.recorded * 10
    for way, held in WAYS.items():
        least = run.plan.held if held else 0
        lasts = 10 + max(rows / 4_000, least)
        run.trial(
            *(ROW, way, lasts, partial(through, run, rows, held=held, least=least)),
            way=way,
        )


def through(run: Run, rows: int, *, held: bool, least: float) -> Sample:
    """Return the greatest size, and the milliseconds of claims.

    Args:
        run: This run.
        rows: Messages.
        held: Whether a snapshot is held meanwhile.
        least: Seconds for which it is held, at least.

    """
    field = Field(run.servers, "redis")
    sizes: list[float] = []
    claims: list[float] = []
    with field.open(), psycopg.connect(field.dsn) as holder:
        field.start_relay()
        if held:
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select txid_current()")
        began = time.monotonic()
        for _ in range(rows // LOT):
            field.fill(LOT)
            sizes.append(_megabytes(field))
            field.empty(LOT / 300 + 30)
            claims.append(_claim(field))
            run.tell()
        took = time.monotonic() - began
        while time.monotonic() - began < least:
            field.fill(1)
            field.empty(30)
            claims.append(_claim(field))
            time.sleep(1)
            run.tell()
        lasted = time.monotonic() - began
        holder.rollback()
    part = max(len(claims) // FIFTH, 1)
    return {
        "rows": rows,
        "seconds": round(took, 1),
        "held_seconds": round(lasted) if held else 0,
        "greatest_mb": round(max(sizes)),
        "last_mb": round(sizes[-1]),
        "claim_ms": {
            "first": round(float(np.median(claims[:part])), 1),
            "last": round(float(np.median(claims[-part:])), 1),
            "most": round(max(claims), 1),
        },
    }


def _megabytes(field: Field) -> float:
    name = f'"{field.name}".pecker_outbox'
    found = field.ask(
        "select pg_total_relation_size(%(name)s::regclass) / 1e6", name=name
    )
    return float(found)


def _claim(field: Field) -> float:
    """Return the milliseconds of the first claim of a new relay."""
    database = Database.of(field.outbox.settings, role="bench")
    database.run("read_outbox", ids=[0])  # connects
    batches = Batches(database, uuid.uuid4(), hold=30.0)
    took = []
    for _ in range(EACH):
        began = time.perf_counter()
        batches.claim(uuid.uuid4(), above=None)
        took.append(time.perf_counter() - began)
    database.close()
    return float(np.median(took)) * 1e3
