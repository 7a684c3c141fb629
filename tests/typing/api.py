"""The public API as a user writes it: read by mypy, run by nobody.

`make types` reads it in strict mode. A line that must not type-check carries an ignore,
which mypy reports as unused on the day when it does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal, assert_type
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab

import celery_pecker
from celery_pecker import (
    BrokerUnavailable,
    DatabaseUnavailable,
    Delivery,
    Gate,
    LeaseLost,
    Misconfigured,
    Misfire,
    Pecker,
    PeckerError,
    PublishUncertain,
    Run,
    ScheduledTask,
    SchemaOutdated,
    current_run,
    deadline,
)
from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.calendars import (
    CalendarSchedule,
    Cron,
    RRule,
    cron,
    in_words,
    jitter,
    recurrence,
    rrule,
    splay,
)
from celery_pecker.kernel.migrations import migrate
from celery_pecker.signals import (
    ClockStepped,
    Missed,
    Woke,
    clock_stepped,
    missed,
    woke,
)
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from celery_pecker.testing.manual import ManualClock, ManualPecker

# Entries

app = Celery("proj")
app.conf.update(
    pecker_dsn="postgresql://user@host/database",
    pecker_gate="proj.gates:office_hours",
    beat_schedule={
        "sweep": {
            "task": "proj.sweep",
            "schedule": 1.0,
            "pecker": {"timeout": 0.8, "misfire": Misfire.SKIP},
        },
        "report": {
            "task": "proj.report",
            "schedule": crontab(hour=7),
            "pecker": {"delivery": Delivery.AT_LEAST_ONCE, "grace": timedelta(hours=1)},
        },
    },
)
assert_type(Misfire.SKIP.value, Literal["skip"])
assert_type(Delivery("at_least_once"), Delivery)

# A gate: any object of that shape


class OfficeHours:
    """Holds everything at night."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those to leave out."""
        return [name for name in names if name.startswith("day-")]


class NoGate:
    """Answers with something else."""

    def held(self, names: Sequence[str]) -> int:
        """Count."""
        return len(names)


def office_hours(_: Celery) -> Gate:
    """Return the gate that ``pecker_gate`` names."""
    return OfficeHours()


wrong: Gate = NoGate()  # type: ignore[assignment]

# Listeners


def count(event: Woke) -> None:
    """Feed a metric."""
    assert_type(event.won, int)
    assert_type(event.lateness_seconds, float)


def alarm(event: Missed) -> None:
    """Tell somebody."""
    assert_type(event.names, tuple[str, ...])


woke.connect(count)
missed.connect(alarm)
clock_stepped.connect(lambda event: assert_type(event, ClockStepped))
woke.connect(alarm)  # type: ignore[arg-type]

# A task and its schedule in one place; which run this is

pecker = Pecker(app)


@pecker.task(every=1.0, timeout=0.8, run="local")
def watched(room: int) -> str:
    """Tell user code its epoch."""
    run = current_run()
    assert_type(run, Run | None)
    if run is not None:
        assert_type(run.epoch, int)
        assert_type(run.deadline, datetime | None)
    assert_type(deadline.remaining(), float | None)
    return str(room)


assert_type(watched(3), str)


class Nightly(ScheduledTask):
    """By class."""

    name = "proj.nightly"
    every = timedelta(days=1)


# Errors, by what to do about them


def once() -> str:
    """Show the tree."""
    try:
        migrate("postgresql://user@host/database", schema="public")
    except SchemaOutdated as error:
        assert_type(error, SchemaOutdated)
        bad: Misconfigured = error
        worse: ValueError = bad
        return str(worse)
    except PublishUncertain as error:
        assert_type(error.retry_safe, bool)
        assert_type(error.done, frozenset[str])
    except (BrokerUnavailable, DatabaseUnavailable, LeaseLost) as error:
        known: PeckerError = error
        return str(known)
    return celery_pecker.version()


# Tests of a user's own


def test_reports() -> None:
    """A year of schedules in a moment."""
    with (
        EmbeddedPostgres(fast=True) as postgres,
        EmbeddedRedis() as redis,
        ManualPecker(
            app, dsn=postgres.dsn, clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        ) as pecker,
    ):
        runs = pecker.pass_time(seconds=86_400)
        assert_type(runs, list[Dispatch])
        assert_type(runs[0].task_id, str)
        assert_type(redis.url, str)
        assert_type(eventually(lambda: len(runs)), int)


# Schedules by a calendar


class Mondays:
    """A calendar of somebody's own."""

    def is_working_day(self, day: date) -> bool:
        """Only Mondays."""
        return day.isoweekday() == 1


seconds = cron("*/10 * * * * *", zone=ZoneInfo("Europe/Paris"), end="2027-01-01")
assert_type(seconds, Cron)
assert_type(rrule("FREQ=DAILY", start=datetime(2026, 1, 1, tzinfo=UTC)), RRule)
calendars: list[CalendarSchedule] = [
    seconds,
    cron("0 9 1 * mon", days="either", calendar="DE-BY"),
    recurrence(start="2026-01-01", level="workday", every=2, calendar=Mondays()),
    recurrence(start="2026-01-01", level="week", days=["mon", 7]),
    splay(60),
    splay(timedelta(minutes=1), key="a"),
    jitter(splay(seconds, over=5), most=1.5),
]
assert_type(seconds.instant_after(datetime(2026, 1, 1, tzinfo=UTC)), datetime | None)
assert_type(in_words(seconds), str)
cron("0 9 1 * mon", days="any")  # type: ignore[arg-type]
recurrence(start="2026-01-01", level="decade")  # type: ignore[arg-type]
recurrence(start="2026-01-01", level="workday", calendar=5)  # type: ignore[arg-type]
jitter(60, most=1)  # type: ignore[arg-type]
