"""Pages in Flower, with 10,000 entries and 30 days of history: how soon are they there?

Time from a request to the last byte of its answer, one request after the other, by a
client on the same machine that keeps its connection. Each request has an address of its
own: Flower's pages share an answer for a second among all who ask the same, and one who
shares costs nothing.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping
from functools import partial

import requests

from benchmarks import figures
from benchmarks.peers.environment import ENVIRONMENT, entry
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.filled import SLOTS, drop, fill
from benchmarks.schedules.trial import ROOT
from celery_pecker.testing import eventually, free_port
from example_project.processes import ProcessContainer

ROW = "flower"
ENTRIES = 10_000
WARM = 5
STARTS_WITHIN = 60.0
ASKED = {
    "the page": "/schedules",
    "its data, by name": "/schedules/data",
    "its data, the latest first": "/schedules/data?order=late&descending=1",
    "its data, the last page": f"/schedules/data?page={ENTRIES // 50}",
    "its data, one found": f"/schedules/data?search={entry(4711)}",
    "an entry's page": f"/schedules/entry?name={entry(4711)}",
    "an entry's data": f"/schedules/entry/data?name={entry(4711)}",
    "the history of all, a day": "/history/data?of=entry",
    "the history of all, 30 days": "/history/data?of=entry&since=30d",
    "the history of an entry, 30 days": f"/history/data?name={entry(471)}&since=30d",
    "Now": "/now",
    "the outbox's data": "/outbox/data",
    "alarms": "/alarms/data",
    "metrics": "/metrics",
}


def run(run: Run) -> None:
    """Measure all pages of one Flower."""
    run.trial(
        ROW,
        f"{ENTRIES:,} entries",
        run.plan.seconds()[ROW],
        partial(measure, run),
        entries=ENTRIES,
    )


def measure(run: Run) -> Sample:
    """Return the times of each page, in ms."""
    dsn, schema = run.servers.dsn, f"bench_{secrets.token_hex(4)}"
    try:
        fill(dsn, schema, ENTRIES)
        figures.fill(dsn, schema, entry)
        pages = times(run, "benchmarks.schedules.app", schema, ASKED)
    finally:
        drop(dsn, schema)
    return {"slots": SLOTS, "requests": run.plan.requests, "pages": pages}


def times(run: Run, app: str, schema: str, asked: Mapping[str, str]) -> Sample:
    """Return the times of pages of a Flower of that app on that schema."""
    servers, port = run.servers, free_port()
    given = {"BROKER": servers.redis, "DSN": servers.dsn, "SCHEMA": schema}
    words = ["-m", "celery", "-A", app, "pecker", "flower"]
    flower = ProcessContainer(
        [sys.executable, *words, "--address=127.0.0.1", f"--port={port}"],
        name="flower",
        cwd=ROOT,
        env={ENVIRONMENT + key: value for key, value in given.items()},
    )
    try:
        flower.start()
        url = f"http://127.0.0.1:{port}"
        with requests.Session() as session:
            eventually(
                lambda: _answers(session, url, flower),
                STARTS_WITHIN,
                "Flower answers",
                ignoring=(requests.ConnectionError,),
            )
            return {
                name: _ask(run, session, url + path) for name, path in asked.items()
            }
    finally:
        flower.remove()


def _answers(session: requests.Session, url: str, flower: ProcessContainer) -> bool:
    if flower.exit_code is not None:
        raise RuntimeError(flower.life_log()[-1000:])
    return session.get(f"{url}/healthcheck", timeout=5).ok


def _ask(run: Run, session: requests.Session, url: str) -> Sample:
    took = []
    size = 0
    mark = "&" if "?" in url else "?"
    for nth in range(run.plan.requests + WARM):
        began = time.perf_counter()
        # Another one than for the page whose data it is: they share answers, too.
        answer = session.get(f"{url}{mark}x={time.monotonic_ns()}", timeout=30)
        spent = time.perf_counter() - began
        answer.raise_for_status()
        size = len(answer.content)
        if nth >= WARM:
            took.append(spent)
    run.tell()
    return {"ms": spread(took, scale=1e3, digits=1), "bytes": size}
