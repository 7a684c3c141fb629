"""What the readers make of stores that the other schedulers' own libraries wrote."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from kombu.utils import json as kombu_json
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    Misconfigured,
)
from celery_pecker.surfaces.cli.other_schedulers import rows
from celery_pecker.surfaces.cli.other_schedulers.redbeat import entry, redbeat
from celery_pecker.surfaces.cli.other_schedulers.tables import NoSuchTable, opened
from celery_pecker.surfaces.cli.other_schedulers.values import ForeignSchedule
from tests.integration.cli.other_schedulers_stores import play, scene

LAST = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
CONSTANTS = """
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo
UTC = timezone.utc
LAST = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")
"""
ZONES = rows.Zones(UTC, "Europe/Berlin")
PLAIN: dict[str, Any] = {
    "args": [],
    "kwargs": {},
    "options": {},
    "start": None,
    "end": None,
    "once": False,
    "paused": False,
}

NEVER = ("crontab", "off")
STORE_REDBEAT = """
import celery.schedules as c
from redbeat.schedules import rrule
from dateutil.rrule import MO, FR
start = datetime(2026, 1, 5, 9, 30, tzinfo=PARIS)
def store(name, schedule, last=None, **rest):
    entry = RedBeatSchedulerEntry(name, "work", schedule, app=app, **rest)
    entry.save()
    if last:
        entry.reschedule(last_run_at=last)
store("interval", c.schedule(0.5), last=LAST, args=[1, "x"], kwargs={"a": None})
store("relative", c.schedule(3600, relative=True))
store("crontab", c.crontab(minute="*/5", hour=[8, 9], day_of_week="mon-fri"))
store("off", c.schedule(60), enabled=False)
store("options", c.schedule(60), last=LAST.astimezone(PARIS),
      options={"queue": "slow", "expires": LAST, "headers": {"a": 1}})
store("instant", c.schedule(60), kwargs={"since": LAST, "deep": [{"at": LAST}]})
store("rule", rrule("WEEKLY", dtstart=start, interval=2, byweekday=[MO, FR], wkst=MO,
      byhour=9, byminute=[0, 30], until=start + timedelta(days=400)))
store("months", rrule("MONTHLY", dtstart=start.astimezone(UTC), bysetpos=-1,
      byweekday=(0, 1), count=5))
store("easter", rrule("YEARLY", dtstart=start.astimezone(UTC), byeaster=0))
store("india", rrule("DAILY", dtstart=start.astimezone(ZoneInfo("Asia/Kolkata"))))
"""


@pytest.fixture
def beats(tmp_path: Path, dsn: str, redis_url: str) -> dict[str, ForeignSchedule]:
    """Give what is read of entries that RedBeat itself has saved."""
    need("redbeat")
    begun = scene("redbeat", dsn=dsn, redis_url=redis_url)
    play(tmp_path, begun, CONSTANTS, STORE_REDBEAT)
    return {one.name: one for one in redbeat(redis_url)}


def need(peer: str) -> None:
    """Skip the test where the library is not installed."""
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")


def fields(found: ForeignSchedule) -> dict[str, Any]:
    """Return the fields of a schedule that is imported."""
    assert found.problem is None
    return found.fields


def test_entries_of_redbeat_come_over(beats: dict[str, ForeignSchedule]) -> None:
    """Intervals, crontabs, what is switched off, options, and when they ran."""
    work = {**PLAIN, "task": "work"}
    assert fields(beats["interval"]) == {
        **work,
        "schedule": {"every": 0.5},
        "args": [1, "x"],
        "kwargs": {"a": None},
    }
    assert fields(beats["crontab"]) == {
        **work,
        "schedule": {"crontab": "*/5 8,9 * * mon-fri"},
    }
    assert fields(beats["relative"])["schedule"] == {"every": 3600, "relative": True}
    assert fields(beats["off"]) == {
        **work,
        "schedule": {"every": 60},
        "paused": True,
    }
    assert fields(beats["options"])["options"] == {
        "queue": "slow",
        "expires": LAST.isoformat(),
        "headers": {"a": 1},
    }
    assert {beats[name].last_us for name in ("interval", "options")} == {to_us(LAST)}
    # RedBeat lets what never ran count from when it was saved first.
    assert all((beats[name].last_us or 0) > to_us(LAST) for name in NEVER)


def test_instants_in_arguments_reach_a_task_as_instants(
    beats: dict[str, ForeignSchedule],
) -> None:
    """A worker decodes kombu's form, which is what RedBeat would have sent."""
    found = beats["instant"]
    kwargs = fields(found)["kwargs"]
    sent = kombu_json.loads(json.dumps(kwargs))
    assert sent == {"since": LAST, "deep": [{"at": LAST}]}
    assert any("kwargs has the instant" in note for note in found.notes)


def test_rules_of_redbeat_come_over_as_rules_of_rfc_5545(
    beats: dict[str, ForeignSchedule],
) -> None:
    """With the offset that RedBeat keeps; what has no part there is left out."""
    assert fields(beats["rule"])["schedule"] == {
        "rrule": "FREQ=WEEKLY;INTERVAL=2;WKST=MO;BYHOUR=9;BYMINUTE=0,30;BYDAY=MO,FR",
        "start": "2026-01-05T09:30:00+01:00",
        "zone": "Etc/GMT-1",
        "end": "2027-02-09T09:30:00+01:00",
    }
    assert "+1 h" in beats["rule"].notes[0]
    assert datetime(2026, 7, 1, tzinfo=ZoneInfo("Etc/GMT-1")).utcoffset() == timedelta(
        hours=1
    )
    assert fields(beats["months"])["schedule"] == {
        "rrule": "FREQ=MONTHLY;COUNT=5;BYSETPOS=-1;BYDAY=MO,TU",
        "start": "2026-01-05T08:30:00+00:00",
        "zone": "UTC",
    }
    assert not beats["months"].notes
    left_out = {name: one.problem for name, one in beats.items() if one.problem}
    assert {*left_out} == {"easter", "india"}
    assert "byeaster" in str(left_out["easter"])
    assert "330 minutes" in str(left_out["india"])


def test_keys_of_redbeat_that_cannot_be_read_are_named(
    tmp_path: Path, dsn: str, redis_url: str
) -> None:
    """One without a definition, one that is no JSON, one of another encoder."""
    need("redbeat")
    store = """
entry = RedBeatSchedulerEntry("tick", "work", schedule(1), app=app)
entry.save()
"""
    play(tmp_path, scene("redbeat", dsn=dsn, redis_url=redis_url), store)
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        client.zadd("redbeat::schedule", {"redbeat:gone": 1, "redbeat:torn": 1})
        client.hset("redbeat:torn", "definition", '{"name": "torn"')
        client.sadd("redbeat::statics", "tick")
        client.rename("redbeat:tick", "other:tick")
        client.zadd("other::schedule", {"other:tick": 1})
        client.hset("redbeat:tick", "definition", '["tick"]')
    found = {one.name: one for one in redbeat(redis_url)}
    assert {name: one.problem for name, one in found.items()} == {
        "gone": "its key has no definition: RedBeat does not run it either",
        "torn": "its definition is no JSON: Expecting ',' delimiter: line 1 column 16"
        " (char 15)",
        "tick": "its definition is ['tick']; allowed is a JSON object",
    }
    (moved,) = redbeat(redis_url, "other:")
    assert (moved.name, moved.problem, moved.notes) == ("tick", None, [])
    assert moved.fields["schedule"] == {"every": 1}


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"__type__": "lunar"}, "RedBeat's own are interval, crontab and rrule"),
        (None, "RedBeat's own are interval, crontab and rrule"),
        ({"__type__": "rrule", "freq": 9, "dtstart": 1}, "freq of its rrule is 9"),
        ({"__type__": "rrule", "freq": 1}, "dtstart of its rrule is not there"),
        (
            {"__type__": "rrule", "freq": 1, "dtstart": 1, "byweekday": [7]},
            "a day of its rrule is 7",
        ),
    ],
)
def test_schedules_of_redbeat_that_nobody_can_read_are_left_out(
    schedule: object, words: str
) -> None:
    """Each with what its definition holds."""
    text = json.dumps({"name": "a", "task": "work", "schedule": schedule})
    assert words in str(entry("a", text, None, set()).problem)


def test_what_redbeats_code_declared_is_named() -> None:
    """So is an argument of a class that only another encoder knows."""
    plain = {"__type__": "interval", "every": 1, "relative": False}
    text = json.dumps({"name": "a", "task": "work", "schedule": plain})
    assert entry("a", text, None, {"a"}).notes == [
        "its code declared it there (beat_schedule)"
    ]
    held = {"name": "a", "schedule": plain, "args": [{"__type__": "Money", "sum": 1}]}
    assert "args holds {'__type__': 'Money'" in str(
        entry("a", json.dumps(held), None, set()).problem
    )
    torn = json.dumps({"last_run_at": {"__type__": "datetime", "year": 0}})
    assert "an instant is" in str(entry("a", text, torn, set()).problem)


STORE_DJANGO = """
from django.core.management import call_command
from django_celery_beat.models import (
    ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule,
)
call_command("migrate", verbosity=0)
def store(name, **rest):
    PeriodicTask(name=name, task="work", **rest).save()
def every(number, unit):
    return IntervalSchedule.objects.create(every=number, period=unit)
day = every(1, "days")
store("interval", interval=day, last_run_at=LAST, args='[1]', kwargs='{"a": null}')
store("micro", interval=every(1_500_000, "microseconds"), last_run_at=LAST)
store("cron", last_run_at=LAST, crontab=CrontabSchedule.objects.create(
    minute="0, 30", hour="4", day_of_week="mon", timezone=PARIS))
store("own", last_run_at=LAST, crontab=CrontabSchedule.objects.create(
    minute="5", timezone=ZoneInfo("Europe/Berlin")))
store("sun", last_run_at=LAST, solar=SolarSchedule.objects.create(
    event="sunrise", latitude=48.85, longitude=2.35))
store("at", one_off=True, clocked=ClockedSchedule.objects.create(clocked_time=LAST))
store("off", interval=day, enabled=False, last_run_at=LAST)
store("routed", interval=day, last_run_at=LAST, queue="slow", exchange="e",
      routing_key="r", priority=3, headers='{"a": 1}', expire_seconds=60,
      description="why")
store("bounded", interval=day, start_time=LAST, expires=LAST + timedelta(days=900))
store("first", interval=day, one_off=True, last_run_at=LAST)
store("done", interval=day, one_off=True, last_run_at=LAST, total_run_count=1)
store("over", interval=day, one_off=True, enabled=False)
store("fresh", interval=day)
store("torn", interval=day, kwargs="{")
PeriodicTask.objects.filter(name="fresh").update(date_changed=LAST)
PeriodicTask.objects.bulk_create([PeriodicTask(name="bare", task="work")])
"""
STORE_SQLALCHEMY = """
from sqlalchemy_celery_beat import models as m
from sqlalchemy_celery_beat.session import SessionManager
manager = SessionManager()
engine, _ = manager.create_session(app.conf.beat_dburi, schema=SCHEMA)
manager.prepare_models(engine, schema=SCHEMA)
session = manager.session_factory(app.conf.beat_dburi, SCHEMA)
def kept(one):
    session.add(one)
    session.flush()
    return one
def store(name, schedule, **rest):
    kept(m.PeriodicTask(name=name, task="work", schedule_id=schedule.id,
         discriminator=schedule.discriminator, **rest))
def every(number, unit):
    return kept(m.IntervalSchedule(every=number, period=unit))
day = every(1, m.Period.DAYS)
store("interval", day, last_run_at=LAST, args='[1]', kwargs='{"a": null}')
store("micro", every(1_500_000, m.Period.MICROSECONDS), last_run_at=LAST)
store("cron", kept(m.CrontabSchedule(minute="0, 30", hour="4", day_of_week="mon",
      timezone="Europe/Paris")), last_run_at=LAST)
store("own", kept(m.CrontabSchedule(minute="5", timezone="Europe/Berlin")),
      last_run_at=LAST)
store("sun", kept(m.SolarSchedule(event=m.SolarEvent.SUNRISE, latitude=48.85,
      longitude=2.35)), last_run_at=LAST)
at = kept(m.ClockedSchedule(clocked_time=LAST))
store("at", at, one_off=True)
store("off", day, enabled=False, last_run_at=LAST)
store("routed", day, last_run_at=LAST, queue="slow", exchange="e", routing_key="r",
      priority=3, headers='{"a": 1}', expire_seconds=60, description="why")
store("bounded", day, start_time=LAST, expires=LAST + timedelta(days=900))
store("first", day, one_off=True, last_run_at=LAST)
store("done", day, one_off=True, last_run_at=LAST, total_run_count=1)
store("over", day, one_off=True, enabled=False)
store("fresh", day)
store("torn", day, kwargs="{")
kept(m.PeriodicTask(name="bare", task="work", schedule_id=99,
     discriminator="intervalschedule"))
session.commit()
"""
TABLES = {
    "django_celery_beat": (rows.django, STORE_DJANGO),
    "sqlalchemy_celery_beat": (rows.sqlalchemy, STORE_SQLALCHEMY),
}


@contextmanager
def tabled(
    peer: str, tmp_path: Path, dsn: str, url: str | None = None
) -> Iterator[dict[str, ForeignSchedule]]:
    """Give what is read of the tables that a library has filled."""
    need(peer)
    ways, store = TABLES[peer]
    begun = scene(peer, dsn=dsn, redis_url="")
    schema = None
    if url is not None:
        begun = (
            f"from celery import Celery\napp = Celery()\napp.conf.beat_dburi={url!r}"
        )
    elif peer.startswith("sqlalchemy"):
        schema = "celery_schema"
    play(tmp_path, begun, CONSTANTS, f"SCHEMA = {schema!r}", store)
    with opened(url or dsn, (None, "celery_schema"), 5.0) as read:
        yield {one.name: one for one in ways(read, ZONES)}


@pytest.mark.parametrize("peer", TABLES)
def test_tables_come_over(peer: str, tmp_path: Path, dsn: str) -> None:
    """Each kind of schedule, each column, each that is left out with its reason."""
    with tabled(peer, tmp_path, dsn) as found:
        check(found, own=peer == "django_celery_beat")


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
def test_a_file_of_sqlite_comes_over(scheme: str, tmp_path: Path, dsn: str) -> None:
    """By Python itself, and by SQLAlchemy as any other database."""
    url = f"{scheme}:///{tmp_path / 'schedule.db'}"
    with tabled("sqlalchemy_celery_beat", tmp_path, dsn, url) as found:
        check(found, own=False)


def check(found: Mapping[str, ForeignSchedule], *, own: bool) -> None:
    """Compare all schedules; `own`: with what only django-celery-beat does."""

    def work(name: str, **rest: Any) -> dict[str, Any]:
        options = rest.pop("options", {})
        if own:
            named = {"periodic_task_name": name}
            options = {**options, "headers": {**options.get("headers", {}), **named}}
        daily = {"task": "work", "schedule": {"every": 86_400}}
        return {**PLAIN, **daily, "options": options, **rest}

    expected = [
        work("interval", args=[1], kwargs={"a": None}),
        work("micro", schedule={"every": 1.5}),
        work("own", schedule={"crontab": "5 * * * *"}),
        work(
            "cron",
            schedule={
                "cron": "0,30 4 * * mon",
                "zone": "Europe/Paris",
                "days": "both",
            },
        ),
        work("sun", schedule={"solar": "sunrise", "lat": 48.85, "lon": 2.35}),
        work("at", schedule={"once": LAST.isoformat()}),
        work("off", paused=True),
        work(
            "routed",
            options={
                "queue": "slow",
                "exchange": "e",
                "routing_key": "r",
                "priority": 3,
                "headers": {"a": 1},
                "expires": 60,
            },
        ),
        work(
            "bounded",
            options={"expires": (LAST + timedelta(days=900)).isoformat()},
            start=LAST,
            end=LAST + timedelta(days=900),
        ),
        work("first", once=True),
        work("over", once=True, paused=True),
        work("fresh"),
    ]
    names = [
        "interval",
        "micro",
        "own",
        "cron",
        "sun",
        "at",
        "off",
        "routed",
        "bounded",
        "first",
        "over",
        "fresh",
    ]
    for name, one in zip(names, expected, strict=True):
        assert fields(found[name]) == one, name
    ran = {name for name in names if found[name].last_us is not None}
    assert {found[name].last_us for name in ran} == {to_us(LAST)}
    # django-celery-beat clears it of what is switched off, and counts from the last
    # change where it never ran.
    always = {"interval", "micro", "own", "cron", "sun", "routed", "first"}
    assert ran == always | ({"fresh"} if own else {"off"})
    noted = {name for name in names if found[name].notes}
    assert noted == {"routed", "over"}
    left_out = {name: one.problem for name, one in found.items() if one.problem}
    assert {*left_out} == {"done", "torn", "bare"}
    assert "it has run" in str(left_out["done"])
    assert "kwargs is '{'; allowed is JSON" in str(left_out["torn"])
    assert ("no schedule" if own else "99 is not in the tables") in str(
        left_out["bare"]
    )


def test_a_wrong_place_is_named(tmp_path: Path, dsn: str) -> None:
    """No URL, no such file, no tables, no server: each in one line."""
    with pytest.raises(Misconfigured, match="allowed is redis://"):
        [*redbeat("amqp://localhost")]
    with pytest.raises(BrokerUnavailable, match="no answer from the Redis"):
        [*redbeat("redis://127.0.0.1:1/0")]
    for place in (dsn, make_conninfo(dsn)):  # as docs/how-to/django.md makes it
        with (
            opened(place, (None, "celery_schema"), 5.0) as read,
            pytest.raises(NoSuchTable, match="and no table celery_schema"),
        ):
            [*rows.sqlalchemy(read, ZONES)]
    with (
        pytest.raises(DatabaseUnavailable, match="no answer from the database"),
        opened("postgresql://nobody@127.0.0.1:1/nothing", (None,), 1.0),
    ):
        pass
    with (
        pytest.raises(Misconfigured, match=r"gone\.db cannot be opened|cannot be read"),
        opened(f"sqlite:///{tmp_path}/gone.db", (None,), 1.0) as read,
    ):
        [*rows.django(read, ZONES)]
    for url in ("schedule.db", "nodriver://x/y", "postgresql://[x"):
        with pytest.raises(Misconfigured), opened(url, (None,), 1.0):
            pass
    for secret in (
        "nodriver://me:secret@x/y",
        "postgresql://[x?password=secret",
        "password='my secret' port",
    ):
        with (
            pytest.raises(Misconfigured) as refused,
            opened(secret, (None,), 1.0),
        ):
            pass
        assert "**" in str(refused.value)
        assert "secret" not in str(refused.value)
