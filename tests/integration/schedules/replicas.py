"""What the tests of replicas say and ask: entries, and what the tables hold."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from celery_pecker.kernel.clock import from_us
from celery_pecker.schedules.history.merge import merge
from celery_pecker.schedules.history.report import Report, SlotReport
from celery_pecker.testing.manual import START, ManualPecker


def every(schedule: object, **pecker: object) -> dict[str, object]:
    """Return an entry."""
    return {"task": "t", "schedule": schedule, "pecker": pecker or None}


def after(seconds: float) -> str:
    """Return an instant so long after the start, as a header tells it."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def due(pecker: ManualPecker) -> list[str]:
    """Return the slots of everything sent."""
    return [str(one.header["due_at"]) for one in pecker.publisher.sent]


def missed(dsn: str, name: str = "sweep") -> int:
    """Return what the table counts as missed."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute(
            "select missed from pecker_tasks where name = %s", [name]
        )
    return int(count)


def pending(dsn: str) -> int:
    """Return how many slots are claimed and not confirmed."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("select count(*) from pecker_pending")
    return int(count)


def names(dsn: str) -> set[str]:
    """Return the entries in the table."""
    with psycopg.connect(dsn) as connection:
        return {name for (name,) in connection.execute("select name from pecker_tasks")}


def pause(dsn: str, name: str = "sweep", *, paused: bool = True) -> None:
    """Pause an entry, or let it go on."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update pecker_tasks set paused = %s where name = %s", [paused, name]
        )


def told(dsn: str, name: str = "sweep") -> list[Report]:
    """Return what the history says of each slot, in order."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select era, holder, due_us, epoch, at_us, report from pecker_history"
            " where name = %s",
            [name],
        ).fetchall()
    pending = merge(
        SlotReport(due_us, era, epoch, at_us, Report(report), holder)
        for era, holder, *columns in rows
        for due_us, epoch, at_us, report in zip(*columns, strict=True)
    )
    return [pending[slot].state for slot in sorted(pending)]


def ask(pecker: ManualPecker, name: str = "sweep") -> str:
    """Ask for a run now; return its slot as a header tells it."""
    [(due_us,)] = pecker._database.run(
        "insert_requested_run", name=name, by="somebody", now=pecker.clock.now()
    )
    return from_us(due_us).isoformat(timespec="microseconds")
