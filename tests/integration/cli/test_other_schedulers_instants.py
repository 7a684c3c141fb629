"""A schedule that came over is due when its own library would have run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.schedules import Schedules
from celery_pecker.surfaces.cli.other_schedulers import rows
from celery_pecker.surfaces.cli.other_schedulers.redbeat import redbeat
from celery_pecker.surfaces.cli.other_schedulers.tables import opened
from tests.command_line import Line
from tests.integration.cli.other_schedulers_stores import play, scene
from tests.integration.cli.test_other_schedulers_read import need

MakeLine = Callable[..., Line]
FROM = datetime(2026, 3, 1, 12, tzinfo=UTC)
MANY = 40
"""Instants of each: weeks of weekly ones, over the night in which clocks change."""
ASK = f"""
import json
from datetime import datetime, timezone
FROM, MANY = datetime.fromisoformat({FROM.isoformat()!r}), {MANY}
def told(after):
    pin, found = FROM, []
    for _ in range(MANY):
        pin = after(pin)
        if pin is None:
            break
        pin = pin.astimezone(timezone.utc)
        found.append(pin.isoformat())
    return found
def asked(schedule):
    def after(pin):
        schedule.nowfun = lambda: pin.astimezone(schedule.tz)
        return pin + schedule.remaining_estimate(pin.astimezone(schedule.tz))
    return told(after)
"""
REDBEAT = """
from dateutil.rrule import FR, MO
from redbeat.schedules import rrule
from zoneinfo import ZoneInfo
start = datetime(2026, 1, 5, 9, 30, tzinfo=ZoneInfo("Europe/Paris"))
RULES = {
    "weeks": rrule("WEEKLY", dtstart=start, interval=2, byweekday=[MO, FR], wkst=MO,
                   byhour=9, byminute=[0, 30]),
    "months": rrule("MONTHLY", dtstart=start, bysetpos=-1, byweekday=(0, 1, 4)),
    "counted": rrule("DAILY", dtstart=start, interval=9, count=12),
    "until": rrule("HOURLY", dtstart=start, interval=7,
                   until=datetime(2026, 3, 5, tzinfo=timezone.utc)),
    "days": rrule("YEARLY", dtstart=start, bymonth=[3, 9], bymonthday=[-1, 15]),
}
for name, one in RULES.items():
    RedBeatSchedulerEntry(name, "work", one, app=app).save()
names = {name: RedBeatSchedulerEntry.from_key(f"redbeat:{name}", app=app)
         for name in RULES}
print(json.dumps({name: told(one.schedule.rrule.after)
                  for name, one in names.items()}))
"""
DJANGO = """
from django.core.management import call_command
from django_celery_beat.models import CrontabSchedule, PeriodicTask, SolarSchedule
from zoneinfo import ZoneInfo
call_command("migrate", verbosity=0)
CRONTABS = {
    "own": ("30", "5", "*", "*", "*", "Europe/Berlin"),
    "far": ("0,30", "4", "mon", "*", "*", "America/New_York"),
    "both": ("15", "*/6", "mon-fri", "1-7,20-31", "*", "Asia/Kolkata"),
    "sunday": ("0", "0", "sun", "*", "*/2", "Europe/Paris"),
}
for name, (minute, hour, weekday, day, month, zone) in CRONTABS.items():
    crontab = CrontabSchedule.objects.create(
        minute=minute, hour=hour, day_of_week=weekday, day_of_month=day,
        month_of_year=month, timezone=ZoneInfo(zone))
    PeriodicTask(name=name, task="work", crontab=crontab).save()
sun = SolarSchedule.objects.create(event="sunset", latitude=48.85, longitude=2.35)
PeriodicTask(name="sun", task="work", solar=sun).save()
print(json.dumps({one.name: asked(one.schedule)
                  for one in PeriodicTask.objects.filter(task="work")}))
"""


@pytest.mark.parametrize("peer", ["redbeat", "django_celery_beat"])
def test_instants_are_those_of_its_own_library(
    peer: str, tmp_path: Path, dsn: str, redis_url: str, make_line: MakeLine
) -> None:
    """Rules, crontabs with zones of their own, sunsets: one instant after another."""
    need(peer)
    store = REDBEAT if peer == "redbeat" else DJANGO
    printed = play(tmp_path, scene(peer, dsn=dsn, redis_url=redis_url), ASK, store)
    told = json.loads(printed)
    if peer == "redbeat":
        found = [*redbeat(redis_url)]
    else:
        with opened(dsn, (None,), 5.0) as read:
            found = [*rows.django(read, rows.Zones(UTC, "Europe/Berlin"))]
    schedules = Schedules(make_line(dsn).app)
    ours = {one.name: instants(schedules, one.fields["schedule"]) for one in found}
    assert ours == told
    assert all(told.values())


def instants(schedules: Schedules, schedule: object) -> list[str]:
    """Return the first instants of a schedule as our schedulers work them out."""
    wanted = schedules.check("a", task="work", schedule=schedule)
    entry = schedules.timings.entry(wanted)
    assert entry.recurrence is not None
    after_us, found = to_us(FROM), []
    for _ in range(MANY):
        after_us = entry.recurrence.next(after_us, after_us)
        if from_us(after_us).year > 3000:
            break
        found.append(from_us(after_us).isoformat())
    return found
