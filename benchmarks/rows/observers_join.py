"""How soon the load is even after a fourth host has joined, and what has moved."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.observers.field import TIMEOUT, Field
from benchmarks.results import Sample
from benchmarks.run import Run
from celery_pecker.testing import eventually

ROW = "observers_join"
HOSTS = 3
AFTERWARDS = 5.0
"""Seconds in which what moves needlessly is counted too."""


def run(run: Run) -> None:
    """Measure once."""
    many = run.plan.observed
    lasts = 45 + many / 500
    run.trial(ROW, "a fourth host", lasts, partial(join, run), observers=many)


def join(run: Run) -> Sample:
    """Return seconds until each host is near its share, and the moves."""
    field, many = Field(run.servers), run.plan.observed
    with field.open():
        field.fill(HOSTS, many)
        before = field.moves()
        field.start_host("joins")
        eventually(lambda: len(field.held()) == HOSTS + 1, TIMEOUT, "it has joined")
        since = time.monotonic()
        eventually(lambda: field.even(HOSTS + 1, many), TIMEOUT, "hosts are even")
        took = time.monotonic() - since
        time.sleep(AFTERWARDS)
        moves = field.moves() - before
    least = many // (HOSTS + 1)
    return {
        "seconds": round(took, 2),
        "moves": moves,
        "least": least,
        "before": before,
        "ratio": round(moves / least, 3),
    }
