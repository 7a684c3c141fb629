"""What became of runs is known, whatever the pool is, with and without a timeout."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.overview import Overview
from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster

POOLS = ("prefork", "threads", "gevent", "solo")
ENTRIES: dict[str, dict[str, Any]] = {
    "fine": {"task": "ran"},
    "fine in time": {"task": "ran", "pecker": {"timeout": 0.9}},
    "fails": {"task": "fails"},
    "fails in time": {"task": "fails", "pecker": {"timeout": 0.9}},
    "overruns": {"task": "overruns", "pecker": {"timeout": 0.3}},
    "not there": {"task": "misspelt"},
    "exits": {"task": "exits"},
    "odd": {"task": "takes", "kwargs": {"odd": 1}},
    "fails here": {"task": "fails", "pecker": {"run": "local"}},
}
SOLO = {name: entry for name, entry in ENTRIES.items() if name != "exits"}
"""There it ends the worker, as Celery has it."""
DIES = {"dies": {"task": "dies", "schedule": 3.0}}

Crews = Callable[..., Crew]


HANGS: dict[str, dict[str, Any]] = {
    "hangs": {"task": "hangs", "schedule": 1.0},
    "hangs here": {"task": "hangs", "schedule": 1.0, "pecker": {"run": "local"}},
}


def outcomes(crew: Crew) -> dict[str, dict[str, Any]]:
    """Return what the table says, by entry."""
    with psycopg.connect(str(crew.conf["pecker_dsn"])) as connection:
        connection.execute("select set_config('search_path', %s, false)", [crew.name])
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute("select * from pecker_outcomes").fetchall()
        return {row["name"]: row for row in rows}


def known(crew: Crew, *, dies: bool) -> bool:
    """Whether each entry came to its end, and ended in no other way."""
    ends = {
        "fine": "succeeded",
        "fine in time": "succeeded",
        "fails": "failed",
        "fails in time": "failed",
        "overruns": "overrun",
        "not there": "failed",
        "exits": "failed",
        "odd": "not_sent",
        "fails here": "failed",
        **({"dies": "lost"} if dies else {}),
    }
    rows = outcomes(crew)
    if crew.name == "solo":
        del ends["exits"]
    return all(name in rows and rows[name][end] for name, end in ends.items())


def test_every_pool_says_what_became_of_runs(
    crews: Crews, dsn: str, redis_url: str
) -> None:
    """One that always raises is failing, not on time."""
    all_of_them = []
    for pool in POOLS:
        entries = SOLO if pool == "solo" else ENTRIES
        every = {name: {"schedule": 1.0, **entry} for name, entry in entries.items()}
        schedule = {**every, **(DIES if pool == "prefork" else {})}
        crew = crews(pool, dsn=dsn, broker=redis_url, beat_schedule=schedule)
        crew.worker(pool, wait=False)
        all_of_them.append(crew)
    for crew in all_of_them:
        dies = crew.name == "prefork"
        crew.until(
            lambda crew=crew, dies=dies: known(crew, dies=dies),
            "every end is known",
            60.0,
        )
        database = Database(dsn, schema=crew.name, timeout=5.0)
        try:
            states = {row.name: row for row in Overview(database).page().rows}
        finally:
            database.close()
        for name, row in states.items():
            # On a busy machine a run with a timeout may be refused as late.
            if name != "fine in time":
                assert row.state == ("ok" if name == "fine" else "failing"), name
        end = states["fails"].outcomes.bad
        assert end is not None
        assert (end.state, end.error) == ("failed", "RuntimeError('no such table')")
        assert end.host == f"{crew.name}-0@here"
        end = states["odd"].outcomes.bad
        assert end is not None
        assert str(end.error).startswith("its arguments cannot be encoded: Object of")
        end = states["not there"].outcomes.bad
        assert end is not None
        assert "'misspelt' never registered" in str(end.error)
        if crew.name != "solo":
            end = states["exits"].outcomes.bad
            assert end is not None
            assert (end.state, end.error) == ("failed", "SystemExit(3)")
        for name, row in states.items():
            counts = row.outcomes.counts
            if "fine" in name:
                assert not counts["failed"] + counts["overrun"] + counts["lost"], name
            else:
                assert not counts["succeeded"], name


def test_messages_that_no_worker_takes_are_known(
    crews: Crews, dsn: str, redis_url: str
) -> None:
    """Of a queue that nobody listens to; a retry is taken, and goes on later."""
    entries: dict[str, dict[str, Any]] = {
        "fine": {"task": "ran"},
        "misrouted": {"task": "ran", "options": {"queue": "nobody-listens"}},
        "retries": {"task": "retries"},
    }
    schedule = {name: {**entry, "schedule": 1.0} for name, entry in entries.items()}
    crew = crews("queues", dsn=dsn, broker=redis_url, beat_schedule=schedule)
    crew.worker("prefork", wait=False)

    def reported(name: str, column: str = "reported_due") -> bool:
        return (outcomes(crew).get(name) or {}).get(column) is not None

    for name in ("fine", "retries"):
        crew.until(lambda name=name: reported(name), f"{name} is reported of", 60.0)
    crew.until(lambda: reported("misrouted", "report_by"), "one is awaited", 60.0)
    assert not reported("misrouted")
    database = Database(dsn, schema=crew.name, timeout=5.0)
    try:
        later = SYSTEM.now() + timedelta(seconds=61)
        database.now = lambda: later
        [fine, misrouted, retries] = Overview(database).page().rows
    finally:
        database.close()
    assert misrouted.outcomes.unreported_us is not None
    assert {row.outcomes.bad for row in (fine, misrouted, retries)} == {None}
    entry = outcomes(crew)["retries"]
    assert entry["succeeded"] + entry["failed"] + entry["lost"] == 0


@pytest.mark.parametrize(
    "pool", [pytest.param("prefork", marks=pytest.mark.soak), "threads"]
)
def test_runs_of_a_worker_that_is_killed_whole_are_lost(
    crews: Crews, dsn: str, redis_url: str, pool: str
) -> None:
    """Nobody is left to report of them: its row says what it had in hand."""
    crew = crews(f"killed_{pool}", dsn=dsn, broker=redis_url, beat_schedule=HANGS)
    worker = crew.worker(pool, wait=False)
    database = Database(dsn, schema=crew.name, timeout=5.0)
    sweeper = Repository(database, uuid.uuid4())

    def in_hand() -> set[str]:
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "select set_config('search_path', %s, false)", [crew.name]
            )
            rows = connection.execute("select names from pecker_lives").fetchall()
        return {name for (names,) in rows for name in names}

    try:
        crew.until(lambda: in_hand() == {*HANGS}, "both are in hand", 60.0)
        worker.kill()
        sweeper.report_lost_runs(sweeper.read_lives(renewal=0.0))
        page = Overview(database).page()
        entry = Overview(database).entry("hangs")
    finally:
        database.close()
    for row in page.rows:
        bad = row.outcomes.bad
        assert bad is not None, row.name
        # Not the state: local slots are overdue where the kill took long.
        assert (row.outcomes.failing, bad.state) == (True, "lost"), row.name
        # Of local runs its scheduler reports, which has the host of the machine.
        assert bad.host is not None, row.name
        assert row.outcomes.counts["lost"], row.name
    assert entry is not None
    assert "lost" in {slot.state for slot in entry.slots}
    assert not in_hand()
