"""What claiming one message costs, alone and beside many that wait for their time."""

from __future__ import annotations

import time
import uuid
from functools import partial

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches

ROW = "outbox_deferred"
HOUR = 3_600.0
CLAIMS = 40


def run(run: Run) -> None:
    """Measure before and after the table is filled."""
    waiting = run.plan.recorded * 5
    run.trial(ROW, "claims", 10 + waiting / 20_000, partial(deferred, run, waiting))


def deferred(run: Run, waiting: int) -> Sample:
    """Return the milliseconds of claim and close, alone and beside the others."""
    field = Field(run.servers, "redis")
    with field.open():
        database = Database.of(field.outbox.settings, role="bench")
        batches = Batches(database, uuid.uuid4(), hold=30.0)
        alone = _claims(field, batches)
        field.fill(waiting, later=HOUR)
        field.ask("delete from {table} where due_at is null")  # the pattern's own row
        field.ask("analyze {table}")
        beside = _claims(field, batches)
        database.close()
    return {
        "waiting": waiting,
        "claims": CLAIMS,
        "alone_ms": spread(alone, scale=1e3),
        "beside_ms": spread(beside, scale=1e3),
    }


def _claims(field: Field, batches: Batches) -> list[float]:
    took = []
    for _ in range(CLAIMS):
        field.fill(1)
        began = time.perf_counter()
        claim = batches.claim(uuid.uuid4(), above=0)
        if claim.batch is None:
            message = "the message that is due was not claimed"
            raise RuntimeError(message)
        batches.close(claim.batch)
        took.append(time.perf_counter() - began)
    return took
