"""Very many messages through the table, while somebody holds a snapshot open.

They come in lots, each of which is delivered before the next. Looked at are the size of
the table with its indexes, and what a claim costs at the end.
"""

from __future__ import annotations

import time
import uuid
from functools import partial

import psycopg

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches

ROW = "outbox_million"
LOT = 20_000
WAYS = {"nobody holds a snapshot": False, "a snapshot is held": True}


def run(run: Run) -> None:
    """Measure both ways."""
    rows = run.plan.recorded * 10
    for way, held in WAYS.items():
        run.trial(
            ROW, way, 10 + rows / 4_000, partial(through, run, rows, held=held), way=way
        )


def through(run: Run, rows: int, *, held: bool) -> Sample:
    """Return the greatest size, and the milliseconds of a claim at the end."""
    field = Field(run.ground, "redis")
    sizes: list[float] = []
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
            run.tell()
        took = time.monotonic() - began
        field.stop_relay()
        claim = _claim(field)
        holder.rollback()
    return {
        "rows": rows,
        "seconds": round(took, 1),
        "greatest_mb": round(max(sizes)),
        "last_mb": round(sizes[-1]),
        "claim_ms": round(claim * 1e3, 1),
    }


def _megabytes(field: Field) -> float:
    name = f'"{field.name}".pecker_outbox'
    found = field.ask(
        "select pg_total_relation_size(%(name)s::regclass) / 1e6", name=name
    )
    return float(found)


def _claim(field: Field) -> float:
    """Return the seconds of a first claim, by a relay that knows no watermark."""
    field.fill(1)
    database = Database.of(field.outbox.settings, role="bench")
    database.run("read_outbox", ids=[0])  # connects
    began = time.perf_counter()
    Batches(database, uuid.uuid4(), hold=30.0).claim(uuid.uuid4(), above=0)
    took = time.perf_counter() - began
    database.close()
    return took
