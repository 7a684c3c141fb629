"""One app with every example of Celery's user guide, as it stands there.

docs.celeryq.dev, "Periodic Tasks": entries, `add_periodic_task`, crontab, solar; and
what its reference says of entries: kwargs, options, relative, lazy arguments. Only
the places of the servers and the queues come from outside.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry, Scheduler
from celery.schedules import crontab, schedule, solar

QUEUE = os.environ.get("PECKER_TEST_QUEUE", "celery")
LONG_AGO = timedelta(days=400)
"""Within it everything has come due at least once."""

app = Celery("tasks", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    task_default_queue=QUEUE,
    pecker_dsn=os.environ.get("PECKER_TEST_BEAT_DSN"),
    pecker_database_timeout=float(os.environ.get("PECKER_TEST_BEAT_TIMEOUT", "2")),
    task_routes={"tasks.tuned": {"queue": f"{QUEUE}-own"}},
    timezone="Europe/London",
)


class Workday(schedule):
    """A user's own schedule: due when it says so."""

    def is_due(self, last_run_at: datetime) -> Any:
        """Once a day."""
        return self.now() - last_run_at > timedelta(days=1), 60.0


@app.task(name="tasks.test")
def test(*_: object, **__: object) -> None:
    """Of the user guide."""


@app.task(name="tasks.add")
def add(x: float, y: float) -> float:
    """Of the user guide."""
    return x + y


@app.task(name="tasks.tuned", expires=3600, time_limit=50, soft_time_limit=40)
def tuned(**_: object) -> None:
    """A task with options of its own."""


@app.on_after_configure.connect
def setup_early(sender: Celery, **_: object) -> None:
    """Entries may be added as soon as there is a configuration."""
    sender.add_periodic_task(10.0, sender.signature("early"), name="early")


@app.on_after_finalize.connect
def setup_periodic_tasks(sender: Celery, **_: object) -> None:
    """The user guide's first example."""
    # Calls test('hello') every 10 seconds.
    sender.add_periodic_task(10.0, test.s("hello"), name="add every 10")
    # Calls test('hello') every 30 seconds.
    sender.add_periodic_task(30.0, test.s("hello"), name="add every 30")
    # Calls test('world') every 30 seconds
    sender.add_periodic_task(30.0, test.s("world"), expires=10)
    # Executes every Monday morning at 7:30 a.m.
    sender.add_periodic_task(
        crontab(hour=7, minute=30, day_of_week=1),
        test.s("Happy Mondays!"),
    )
    sender.add_periodic_task(
        schedule(timedelta(minutes=5)),
        add.s(1).set(priority=6),
        args=(2,),
        name="partial",
    )


app.conf.beat_schedule = {
    "add-every-30-seconds": {
        "task": "tasks.add",
        "schedule": 30.0,
        "args": (16, 16),
    },
    "add-every-monday-morning": {
        "task": "tasks.add",
        "schedule": crontab(hour=7, minute=30, day_of_week=1),
        "args": (16, 16),
    },
    "add-at-melbourne-sunset": {
        "task": "tasks.add",
        "schedule": solar("sunset", -37.81753, 144.96715),
        "args": (16, 16),
    },
    "timedelta": {
        "task": "tasks.add",
        "schedule": timedelta(seconds=30),
        "args": (1, 16),
    },
    "integer": {"task": "tasks.add", "schedule": 300, "kwargs": {"x": 1, "y": 2}},
    "relative": {
        "task": "tasks.add",
        "schedule": timedelta(hours=1),
        "relative": True,
        "args": [1, 1],
    },
    "options": {
        "task": "tasks.test",
        "schedule": 20.0,
        "args": ("é %s \"quoted\" 'text'",),
        "options": {
            "queue": f"{QUEUE}-other",
            "priority": 3,
            "expires": 15.0,
            "headers": {"mine": "100 %"},
            "shadow": "another name",
            "serializer": "json",
            "compression": "gzip",
            "time_limit": 30,
            "ignore_result": True,
        },
    },
    "options of the task": {"task": "tasks.tuned", "schedule": 20.0},
    "options of both": {
        "task": "tasks.tuned",
        "schedule": 20.0,
        "options": {"queue": f"{QUEUE}-other", "expires": 7},
    },
    "lazy": {
        "task": "tasks.test",
        "schedule": 300,
        "args": (BeatLazyFunc(str.upper, "argument"), "plain"),
        "kwargs": {"current": BeatLazyFunc(dict, evaluated=True)},
    },
    "not registered": {"task": "somewhere.else", "schedule": 60.0, "args": [None]},
    "a name with spaces, % and ü": {"task": "tasks.test", "schedule": 60.0},
    "own class": {"task": "tasks.test", "schedule": Workday(60.0), "args": ["own"]},
    **{
        f"crontab {given!r}": {"task": "tasks.test", "schedule": given, "args": (n,)}
        for n, given in enumerate(
            [
                crontab(),
                crontab(minute=0, hour=0),
                crontab(minute=0, hour="*/3"),
                crontab(minute=0, hour="0,3,6,9,12,15,18,21"),
                crontab(minute="*/15"),
                crontab(day_of_week="sunday"),
                crontab(minute="*", hour="*", day_of_week="sun"),
                crontab(minute="*/10", hour="3,17,22", day_of_week="thu,fri"),
                crontab(minute=0, hour="*/2,*/3"),
                crontab(minute=0, hour="*/5"),
                crontab(minute=0, hour="*/3,8-17"),
                crontab(0, 0, day_of_month="2"),
                crontab(0, 0, day_of_month="2-30/2"),
                crontab(0, 0, day_of_month="1-7,15-21"),
                crontab(0, 0, day_of_month="11", month_of_year="5"),
                crontab(0, 0, month_of_year="*/3"),
                crontab.from_string("30 4 1,15 * 5"),
            ]
        )
    },
}


class LongAgo(Scheduler):
    """Celery's own scheduler, whose entries last ran long ago: all are due at once.

    It sends each entry once: an entry of each minute is due again where a minute ends
    before all were sent.
    """

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the first slot of the entry, and no other."""
        sent: set[str | None] = vars(self).setdefault("sent", set())
        if entry.name not in sent:
            sent.add(entry.name)
            super().apply_entry(entry, producer)

    def setup_schedule(self) -> None:
        """Set up as beat's shelve scheduler does, which is what people run."""
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)
        for entry in self.schedule.values():
            entry.last_run_at = datetime.now(UTC) - LONG_AGO  # noqa: TID251  # beat's
