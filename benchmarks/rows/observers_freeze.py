"""A host and its supervisor are frozen, and thawed when others run what it ran.

User code must end soon after the thaw, and what it then tries to write under its guards
must be refused: by the database, for the guards are from before the host knew.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.observers.field import LEASE, TIMEOUT, Field, Line
from benchmarks.observers.watching import PERMITS, WRITES
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.testing import eventually

ROW = "observers_freeze"
HOSTS = 2
ATTEMPTS = 1_000
SPARE = 1.25
"""The host that is frozen may have less than its half."""
HALFWAY = 20
"""Observers that are between a guard and the write at any instant."""
REST = 2 * LEASE
"""Seconds; who held its own lease for less than a whole one buries nobody."""
TABLE = "create table {} (name text, epoch bigint, at timestamptz)"
OVERTAKEN = """
select count(*) from {writes} as w
where exists (
    select from {history} as h
    where h.name = w.name and h.epoch > w.epoch and h.at < w.at
        and h.event in ('started', 'moved')
)
"""


def run(run: Run) -> None:
    """Measure once."""
    lasts = 60 + run.plan.frozen
    run.trial(ROW, "one of two", lasts, partial(freeze, run), frozen=run.plan.frozen)


def freeze(run: Run) -> Sample:
    """Return how late user code ended, and what became of its guarded writes."""
    field = Field(run.servers)
    with field.open():
        field.execute(TABLE.format(WRITES))
        many = int(HOSTS * SPARE * ATTEMPTS / PERMITS)
        field.fill(HOSTS, {"idle": many, "stale": many, "halfway": HALFWAY})
        time.sleep(REST)
        latest = {one.name: one for one in field.lines() if one.what == "began"}
        halfway = [one.pid for one in latest.values() if one.name.startswith("half")]
        pairs = zip(field.processes(), field.hosts.values(), strict=True)
        host, container = max(pairs, key=lambda pair: halfway.count(pair[0].pid))
        lives = {name: one for name, one in latest.items() if one.pid == host.pid}
        since = time.monotonic()
        container.kill("SIGSTOP")  # or it would say that its host is dead
        os.kill(host.pid, signal.SIGSTOP)
        while time.monotonic() - since < run.plan.frozen:
            time.sleep(0.5)
            run.tell()
        begun = field.wait_for({*lives}, since)
        thawed = time.monotonic()
        os.kill(host.pid, signal.SIGCONT)
        container.kill("SIGCONT")

        def late() -> list[Line]:
            return [
                one
                for one in field.lines()
                if one.at > thawed
                and one.name in lives
                and one.epoch == lives[one.name].epoch
            ]

        eventually(
            lambda: (
                len({one.name for one in late() if one.what == "ended"}) == len(lives)
            ),
            TIMEOUT,
            "lives of the frozen host have ended",
        )
        after = late()
        overtaken = field.ask(OVERTAKEN)
    # "wrote" may be of a commit from before: the tables say what was written late.
    said = [one.what for one in after if one.what in {"refused", "broken"}]
    ends = [
        one.at - thawed
        for one in after
        if one.what == "ended" and one.name.startswith("idle")
    ]
    return {
        "hosts": HOSTS,
        "lives": len(lives),
        "ended_ms": spread(ends, scale=1e3),
        "attempts": len(said) + overtaken,
        "refused": said.count("refused"),
        "broken": said.count("broken"),
        "written": overtaken,
        "gap_s": spread([at - since for at in begun.values()]),
    }
