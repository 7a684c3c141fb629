"""Post over a million results of 200 letters: by how much its process grows.

Beside it the body of a chord over a tenth of them: it is given them as one list.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from celery import chord

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.sharding import canvas, ours
from benchmarks.sharding.field import CANVAS, Field

ROW = "sharding_post"
LETTERS = ours.LETTERS
EACH = 500
"""Results of a shard."""
PART = 10
"""The chord gets so much less: what it is given travels in one message."""
GIVEN_UP = 600.0


def run(run: Run) -> None:
    """Measure ours and the chord's."""
    run.trial(ROW, "celery_sharding", 60, partial(measure, run), who="celery_sharding")
    run.trial(ROW, "chord", 20, partial(beside, run), who="chord")


def measure(run: Run) -> Sample:
    """Return what Post saw and by how much its process grew."""
    items = run.plan.items
    with Field(run.servers, run.tell) as field:
        field.start(2)
        app: Any = ours.build(field.given())
        value = app.tasks["ours.kept"].delay(items, 1, "source").get(timeout=GIVEN_UP)
        app.close()
    grown = value["grown"]
    return {
        "results": value["results"],
        "letters": LETTERS,
        "grown_mb": None if grown is None else round(grown / 2**20, 1),
        "seconds": round(value["seconds"], 2),
    }


def beside(run: Run) -> Sample:
    """Return the same of a chord's body."""
    items = run.plan.items // PART
    with Field(run.servers, run.tell) as field:
        field.start(2, CANVAS)
        app: Any = canvas.build(field.given())
        said, counted = app.tasks["canvas.said"], app.tasks["canvas.counted"]
        first = chord([said.s(1, LETTERS)] * 2, app=app)(counted.s()).get(timeout=60)
        began = time.perf_counter()
        header = [said.s(EACH, LETTERS) for _ in range(items // EACH)]
        value = chord(header, app=app)(counted.s()).get(timeout=GIVEN_UP)
        took = time.perf_counter() - began
        app.close()
    return {
        "results": value["results"],
        "letters": LETTERS,
        "grown_mb": round((value["rss"] - first["rss"]) / 2**20, 1),
        "seconds": round(took, 2),
    }
