"""Reports of peers whose room changes its media server: with and without a lock.

One room after the other with 40 peers, as in the published benchmark; reports are lost
(5 %), doubled (15 %) and shuffled. The room lock and the single statements have 40
connections of four processes, the batches two. A line of so many milliseconds stands
before PostgreSQL. How long splits last is seen by peers on sockets: the demo's act,
again and again.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from rich.console import Console

from benchmarks.groomer.clients import pull
from benchmarks.groomer.million import flood
from benchmarks.groomer.ways import WAYS, drop_schema, make_tables
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.trial import ROOT
from celery_pecker.testing import eventually
from example_project.demo.servers import Servers
from example_project.groomer.play import play
from example_project.processes import ProcessContainer

ROW = "groomer"
DELAYS_MS = (0, 1, 30)
PINGS = 30
LINE_TIMEOUT = 30.0
MILLION = "very many reports"
SPLITS = "calls that a frozen server splits"
ACT = 45.0
"""Seconds that an act lasts."""


def run(run: Run) -> None:
    """Measure each way on each line, and then very many reports."""
    seconds = run.plan.groomed
    for delay in DELAYS_MS:
        for way in WAYS:
            run.trial(
                ROW,
                f"{way}, {delay} ms",
                seconds + 3.0,
                partial(measure, run, way, delay, seconds),
                way=way,
                delay_ms=delay,
            )
    reports = run.plan.recorded * 10
    run.trial(
        ROW, MILLION, 5 + reports / 8_000, partial(_flood, run, reports), way=MILLION
    )
    acts = run.plan.acts
    run.trial(ROW, SPLITS, acts * ACT, partial(_split, run, acts), way=SPLITS)


def measure(run: Run, name: str, delay_ms: int, seconds: float) -> Sample:
    """Return how many reports a second one way applies on one line."""
    with _schema(run.servers.dsn) as dsn, _line(dsn, delay_ms) as far:
        ping = _ping(far)
        pulled = pull(dsn, far, name, seconds, run.tell)
    return {
        "ping_ms": round(ping, 2),
        "connections": WAYS[name].connections,
        "seconds": seconds,
        "per_second": round(pulled["reports"] / seconds, 1),
        **pulled,
    }


def _flood(run: Run, reports: int) -> Sample:
    with _schema(run.servers.dsn) as dsn:
        return flood(dsn, reports, run.tell)


def _split(run: Run, acts: int) -> Sample:
    """Return how long the calls of a frozen server were split, and who was invited."""
    with Servers() as servers:
        seen = [
            play(servers, Console(quiet=True), lambda _: run.tell())
            for _ in range(acts)
        ]
    lengths = [end - begin for one in seen for _, begin, end in one.splits]
    return {
        "acts": acts,
        "calls": sum(one.calls for one in seen),
        "switched": sum(one.switched for one in seen),
        "splits": len(lengths),
        "split_s": spread(lengths),
        "still_split": sum(one.still_split for one in seen),
        "invited": sum(one.invited for one in seen),
        "invited_twice": sum(one.twice for one in seen),
        "pulled": sum(one.pulled for one in seen),
        "refused": sum(one.refused for one in seen),
    }


@contextmanager
def _schema(dsn: str) -> Iterator[str]:
    """Give the address of a schema with the tables of all ways."""
    name = f"bench_{secrets.token_hex(4)}"
    own = make_conninfo(dsn, options=f"-c search_path={name}")
    try:
        with psycopg.connect(own, autocommit=True) as connection:
            connection.execute(f"create schema {name}".encode())
            make_tables(connection)
        yield own
    finally:
        drop_schema(dsn, name)


@contextmanager
def _line(dsn: str, delay_ms: int) -> Iterator[str]:
    """Give an address behind a line of so many milliseconds there and back."""
    if not delay_ms:
        yield dsn
        return
    place = conninfo_to_dict(dsn)
    host, port = str(place["host"]), str(place.get("port", 5432))
    process = ProcessContainer(
        [
            *(sys.executable, "-m", "benchmarks.groomer.line", host, port),
            str(delay_ms / 2000),
        ],
        name=f"line of {delay_ms} ms",
        cwd=ROOT,
    )
    process.start()
    try:
        eventually(
            lambda: process.life_log().endswith("\n"), LINE_TIMEOUT, "line is open"
        )
        yield make_conninfo(dsn, host="127.0.0.1", port=process.life_log().strip())
    finally:
        process.kill()
        process.remove()


def _ping(dsn: str) -> float:
    """Return the median milliseconds of a statement that asks nothing."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        took = []
        for _ in range(PINGS):
            began = time.perf_counter()
            connection.execute("select 1")
            took.append((time.perf_counter() - began) * 1e3)
    return median(took)
