"""The app whose tasks touch a database: with a gate, or without one.

What its tasks did is written to files, one a process, as fixed records: when a run
began and ended by the host's clock, which is the clock of Redis too, and how many
statements it made. They are the truth that the windows in Redis are held against.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery, signals

import throttle
from benchmarks.peers.environment import given
from benchmarks.record import RECORD
from celery_pecker.worker import RedisGuardStep

DATABASE = "main"
SHUT = "other"
STATEMENT = "select nextval('ticks')" if given("SEQUENCE") else "select 1"
"""With a sequence PostgreSQL itself counts, and tells at once."""

app = Celery("throttled", broker=given("BROKER", "memory://"))
app.conf.update(
    task_default_queue=given("QUEUE", "throttled"),
    task_ignore_result=True,
    task_acks_late=bool(given("LATE")),
    worker_prefetch_multiplier=int(given("PREFETCH", "4")),
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
if given("LIMIT"):
    app.conf.update(
        throttle_redis_url=given("TRAFFIC"),
        throttle_limits={
            DATABASE: float(given("LIMIT")),
            SHUT: float(given("LIMIT")),
        },
        throttle_estimator=given("ESTIMATOR", "weighted"),
    )

if given("GUARD"):
    app.steps["worker"].add(RedisGuardStep)

_here: dict[str, Any] = {}


@signals.worker_process_init.connect
def _open(**_: object) -> None:
    _here.clear()


def _log() -> int:
    if "log" not in _here:
        folder = Path(given("FOLDER", "/tmp"))  # noqa: S108 — the workers gives its own
        name = folder / f"runs-{os.getpid()}"
        _here["log"] = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log: int = _here["log"]
    return log


def _connection() -> psycopg.Connection[Any]:
    connection: psycopg.Connection[Any] | None = _here.get("connection")
    if connection is None:
        connection = psycopg.connect(given("DSN"), autocommit=True)
        throttle.instrument.psycopg(connection, database=DATABASE)
        _here["connection"] = connection
    return connection


@app.task(name="throttled.touch", throttle=DATABASE)
def touch(number: int, statements: int, lasts: float = 0.0) -> None:
    """So many statements, spread over so many seconds."""
    began = time.time()
    connection = _connection()
    for _ in range(statements):
        connection.execute(STATEMENT)
        if lasts:
            time.sleep(lasts / statements)
    os.write(_log(), RECORD.pack(began, time.time(), statements, number))


@app.task(name="throttled.nothing", throttle=DATABASE)
def nothing(number: int) -> None:
    """It ran; it touches no database, but the gate is asked."""
    now = time.time()
    os.write(_log(), RECORD.pack(now, now, 0, number))


@app.task(name="throttled.free")
def free(number: int) -> None:
    """It ran; no route names it."""
    now = time.time()
    os.write(_log(), RECORD.pack(now, now, 0, number))


@app.task(name="throttled.shut", throttle=SHUT)
def shut(number: int) -> None:
    """It is of a database whose gate is shut."""
    now = time.time()
    os.write(_log(), RECORD.pack(now, now, 0, number))


@app.task(name="throttled.limited", rate_limit=given("RATE") or None)
def limited(number: int) -> None:
    """It is under Celery's own rate limit."""
    now = time.time()
    os.write(_log(), RECORD.pack(now, now, 0, number))


if given("PROBE"):
    # only here, so that what is measured without a probe does not carry it
    from benchmarks.throttle import probe as throttled_probe

    throttled_probe.install(app, Path(given("FOLDER")))

if given("TIMED"):
    from benchmarks.throttle import probe as throttled_probe

    throttled_probe.time_the_hook(Path(given("FOLDER")))
