"""What recording costs the caller, beside Celery's own sending.

The three ways take turns in one process: `delay()` to Redis, `delay()` of a task with
an outbox inside a transaction that stays open, and `send_many`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import psycopg

from benchmarks.cputime import no_collection
from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run

ROW = "outbox_call"
CALLS = 200
TURNS = 15


def run(run: Run) -> None:
    """Measure both."""
    lasts = 6 + run.plan.recorded / 5_000
    run.trial(ROW, "calls", lasts, partial(calls, run))


def calls(run: Run) -> Sample:
    """Return microseconds of a call, and rows a second of many at once."""
    field = Field(run.servers, "redis")
    with field.open(), psycopg.connect(field.dsn) as connection:
        plain: Any = field.task

        def recorded() -> None:
            with field.outbox.using(connection):
                for number in range(CALLS):
                    plain.delay(number)

        def sent() -> None:
            for number in range(CALLS):
                plain.delay(number)

        ways: dict[str, Callable[[], None]] = {"outbox": recorded, "celery": sent}
        elapsed: dict[str, list[float]] = {who: [] for who in ways}
        cpu: dict[str, list[float]] = {who: [] for who in ways}
        with no_collection():
            for turn in range(TURNS + 1):
                for who, way in ways.items():
                    began, busy = time.perf_counter(), time.thread_time()
                    way()
                    if turn:
                        elapsed[who].append(time.perf_counter() - began)
                        cpu[who].append(time.thread_time() - busy)
                run.tell()
        connection.rollback()
        rows = [(number,) for number in range(run.plan.recorded // 5)]
        rates = []
        for _ in range(3):
            began = time.perf_counter()
            field.outbox.send_many(plain, rows, connection=connection)
            rates.append(len(rows) / (time.perf_counter() - began))
            connection.rollback()
    us = {who: _each_us(turns) for who, turns in elapsed.items()}
    own = {who: _each_us(turns) for who, turns in cpu.items()}
    return {
        "calls": CALLS * TURNS,
        "us": us,
        "cpu_us": own,
        "ratio": round(us["outbox"] / us["celery"], 2),
        "cpu_ratio": round(own["outbox"] / own["celery"], 2),
        "many_rows": len(rows),
        "many_rate": round(float(np.median(rates))),
    }


def _each_us(turns: list[float]) -> int:
    return round(float(np.median(turns)) / CALLS * 1e6)
