"""The outbox beside others that record work in PostgreSQL, and beside plain `delay()`.

Each in turn, in a schema of its own, with the same servers: calls in a transaction that
is rolled back, commits with one call each by one client, many messages committed at
once, and the way from a commit to the broker, or to the run where there is no broker.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import psycopg
import redis
from psycopg import conninfo, sql

from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.filled import drop
from benchmarks.schedules.trial import ROOT

ROW = "outbox_peers"
SUBJECTS = {
    "celery-pecker": ("pecker", "to Redis"),
    "django-celery-outbox": ("django", "to Redis"),
    "pgqueuer": ("pgqueuer", "run"),
    "procrastinate": ("procrastinate", "run"),
    "plain delay()": ("celery", ""),
}
GIVEN_UP = 600.0


def run(run: Run) -> None:
    """Measure each."""
    for subject, (peer, what) in SUBJECTS.items():
        lasts = 12 + run.plan.recorded / 10 / 800 + run.plan.submits * 0.4
        run.trial(
            *(ROW, subject, lasts, partial(measure, run, peer, what)), subject=subject
        )


def measure(run: Run, peer: str, what: str) -> Sample:
    """Return its figures."""
    name = f"bench_{secrets.token_hex(4)}"
    dsn = run.servers.dsn
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        plan = {
            "ROWS": run.plan.recorded // 10,
            "CALLS": 1_000,
            "COMMITS": run.plan.submits * 3,
        }
        given = {
            **plan,
            "PEER": peer,
            "DSN": conninfo.make_conninfo(dsn, options=f"-csearch_path={name}"),
            "SCHEMA": name,
            "BROKER": run.servers.redis,
            "QUEUE": name,
            "FILE": file,
        }
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.outbox.peers"],
                cwd=ROOT,
                env={
                    **os.environ,
                    **{ENVIRONMENT + key: str(one) for key, one in given.items()},
                },
                capture_output=True,
                text=True,
                timeout=GIVEN_UP,
                check=False,
            )
            if not file.exists():
                raise RuntimeError(done.stderr[-400:])
            found: Sample = json.loads(file.read_text())
        finally:
            drop(dsn, name)
            with redis.Redis.from_url(run.servers.redis) as broker:
                broker.delete(name)
    return {"what": what, **plan, **found}
