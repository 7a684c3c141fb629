"""``pecker import --schedules``: what real libraries stored, stored here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import redis

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules import Schedules
from celery_pecker.surfaces.cli import pecker
from tests.command_line import Line
from tests.integration.cli.conftest import SCHEDULE
from tests.integration.cli.other_schedulers_stores import play, scene
from tests.integration.cli.test_other_schedulers_read import need

MakeLine = Callable[..., Line]
BEGUN = """
from datetime import datetime, timedelta, timezone
import celery.schedules as c
from redbeat.schedules import rrule
NOW = datetime.now(timezone.utc)
def store(name, schedule, ago=0.0, task="work", **rest):
    entry = RedBeatSchedulerEntry(name, task, schedule, app=app, **rest)
    entry.save()
    entry.reschedule(last_run_at=NOW - timedelta(seconds=ago))
"""
STORE = """
store("grid", c.schedule(3600), ago=3000)
store("night", c.crontab(hour=4, minute=0), kwargs={"deep": [1]})
store("off", c.schedule(60), enabled=False)
store("fast", c.schedule(0.01))
store("easter", rrule("YEARLY", byeaster=0))
store("tick", c.schedule(3600), ago=1800, task="proj.other")
"""


@pytest.fixture
def peer(tmp_path: Path, dsn: str, redis_url: str) -> Callable[[str], None]:
    """Give a function that runs a script on RedBeat's store."""
    need("redbeat")
    begun = scene("redbeat", dsn=dsn, redis_url=redis_url)

    def run(script: str) -> None:
        play(tmp_path, begun, BEGUN, script)

    return run


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    """Return what became of each."""
    return {one["name"]: one["verdict"] for one in document["schedules"]}


def test_schedules_come_over_once(
    peer: Callable[[str], None], line: Line, redis_url: str
) -> None:
    """A dry run says what a run does and does nothing; a second run does nothing."""
    peer(STORE)
    words = ("import", "--schedules", "redbeat", redis_url)
    dry = line.json(*words, "--dry-run")
    assert verdicts(dry) == {
        "grid": "new",
        "night": "new",
        "off": "new",
        "fast": "refused",
        "easter": "refused",
        "tick": "code",
    }
    assert line.json("schedules") == {"schedules": []}
    assert line.json("export") == {}
    done = line.json(*words)
    assert done == {**dry, "dry_run": False}
    why = {one["name"]: one["why"] for one in done["schedules"]}
    assert "0.1" in str(why["fast"])
    assert "byeaster" in str(why["easter"])
    rows = {one["name"]: one for one in line.json("schedules")["schedules"]}
    assert {*rows} == {"grid", "night", "off"}
    assert rows["night"]["kwargs"] == {"deep": [1]}
    assert rows["off"]["paused"]
    again = line.json(*words)
    assert verdicts(again) == {
        **verdicts(done),
        **dict.fromkeys(("grid", "night", "off"), "same"),
    }
    after = {one["name"]: one for one in line.json("schedules")["schedules"]}
    assert after == rows


def test_what_ran_there_does_not_run_again_and_what_is_due_does(
    peer: Callable[[str], None], line: Line, redis_url: str
) -> None:
    """Slots count from the last run there, also of entries that the code declares."""
    peer(STORE)
    line.json("import", "--schedules", "redbeat", redis_url)
    [slot] = line.json("next", "grid", "-n", "1")["slots"]
    last = datetime.fromisoformat(slot) - timedelta(hours=1)
    assert last < SYSTEM.now() - timedelta(seconds=3000)
    ran = {
        name: datetime.fromisoformat(one) for name, one in line.json("export").items()
    }
    assert ran["tick"] - ran["grid"] == timedelta(seconds=1200)


def test_a_difference_is_shown_and_taken_over(
    peer: Callable[[str], None], line: Line, redis_url: str
) -> None:
    """By field, old and new; policies that were chosen here stay."""
    peer(STORE)
    words = ("import", "--schedules", "redbeat", redis_url)
    line.json(*words)
    line.json("set", "grid", "--every", "60", "--timeout", "30", "--paused")
    shown = line(*words, "--dry-run")
    assert shown.exit_code == 0
    assert 'schedule: {"every": 60} → {"every": 3600}' in shown.stdout
    assert "paused: true → false" in shown.stdout
    assert "0 new, 1 changed, 2 same, 1 code, 2 refused" in shown.stdout
    assert shown.stdout.endswith("1 would be stored\n")
    told = line.json(*words)
    [grid] = [one for one in told["schedules"] if one["name"] == "grid"]
    assert grid["changes"] == {
        "schedule": {"old": {"every": 60}, "new": {"every": 3600}},
        "paused": {"old": True, "new": False},
    }
    rows = {one["name"]: one for one in line.json("schedules")["schedules"]}
    assert rows["grid"]["policies"] == {"timeout": 30}
    assert not rows["grid"]["paused"]


def test_what_ran_here_since_is_kept(
    peer: Callable[[str], None], line: Line, redis_url: str, dsn: str
) -> None:
    """A later import moves no slot of an entry that a scheduler here has run."""
    peer(STORE)
    words = ("import", "--schedules", "redbeat", redis_url)
    with line.replica() as replica:
        replica.pass_time(2)  # `tick` is won
        ran = line.json("export")["tick"]
        told = line.json(*words)
    [tick] = [one for one in told["schedules"] if one["name"] == "tick"]
    assert tick["last_us"] is None
    assert any("it has run here since" in note for note in tick["notes"])
    assert line.json("export")["tick"] == ran


def test_a_store_that_is_elsewhere_is_found_by_the_apps_settings(
    peer: Callable[[str], None], dsn: str, make_line: MakeLine, redis_url: str
) -> None:
    """RedBeat's own names of settings, or options; nothing there is an answer too."""
    peer(STORE)
    line = make_line(dsn, redbeat_redis_url=redis_url)
    assert verdicts(line.json("import", "--schedules", "redbeat", "--dry-run"))
    none = line.json(
        *("import", "--schedules", "redbeat", redis_url, "--prefix", "x:"), code=1
    )
    assert none["schedules"] == []
    refused = make_line(dsn)("import", "--schedules", "redbeat")
    assert refused.exit_code == 1
    assert "memory://" in refused.stderr
    refused = make_line(dsn)("import", "--schedules", "sqlalchemy")
    assert refused.exit_code == 1
    assert "beat_dburi" in refused.stderr
    for words, code in (
        (("--schedules", "django"), 1),
        (("--schedules", "django", "--zone", "Mars/Olympus"), 1),
        (("--schedules", "redbeat", "redis://127.0.0.1:1/0"), 3),
        (("--schedules", "redbeat", redis_url, "--overwrite"), 2),
        ((), 2),
    ):
        refused = make_line(dsn)("import", *words)
        assert (refused.exit_code, refused.stdout) == (code, ""), words


def test_a_change_in_between_is_refused(
    peer: Callable[[str], None],
    line: Line,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was stored after the difference was made is not overwritten."""
    peer('store("grid", c.schedule(3600)); store("other", c.schedule(60))')
    made = Schedules.set_each

    def first(schedules: Schedules, wanted: Any, **fields: Any) -> Any:
        """Let somebody else be first."""
        line.json("set", "grid", "--task", "proj.mine", "--every", "7")
        return made(schedules, wanted, **fields)

    monkeypatch.setattr(Schedules, "set_each", first)
    told = line.json("import", "--schedules", "redbeat", redis_url)
    grid, other = told["schedules"]
    assert (grid["verdict"], other["verdict"]) == ("refused", "new")
    assert "version 0" in grid["why"]
    rows = line.json("schedules")["schedules"]
    assert [row["schedule"] for row in rows] == [{"every": 7}, {"every": 60}]


DJANGO = """
from datetime import datetime, timezone
from django.core.management import call_command
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask
call_command("migrate", verbosity=0)
day = IntervalSchedule.objects.create(every=1, period="days")
PeriodicTask(name="daily", task="work", interval=day, priority=3).save()
PeriodicTask(name="hourly", task="work", interval=day).save()
for name, at in (("past", 2020), ("soon", 2031)):
    at = datetime(at, 1, 1, tzinfo=timezone.utc)
    at = ClockedSchedule.objects.create(clocked_time=at)
    PeriodicTask(name=name, task="work", clocked=at, one_off=True).save()
"""


def test_tables_of_django_in_the_same_database_come_over(
    tmp_path: Path, dsn: str, line: Line
) -> None:
    """Without a URL; what is over is refused by the tables, in a dry run too."""
    need("django_celery_beat")
    play(tmp_path, scene("django_celery_beat", dsn=dsn, redis_url=""), DJANGO)
    dry = line.json("import", "--schedules", "django", "--dry-run")
    assert verdicts(dry) == {
        "daily": "new",
        "hourly": "code",
        "past": "refused",
        "soon": "new",
    }
    assert line.json("schedules") == {"schedules": []}
    told = line.json("import", "--schedules", "django")
    assert verdicts(told) == verdicts(dry)
    [past] = [one for one in told["schedules"] if one["name"] == "past"]
    assert "2020" in past["why"]
    [soon] = [
        one for one in line.json("schedules")["schedules"] if one["name"] == "soon"
    ]
    assert soon["once_at"] == "2031-01-01T00:00:00.000000Z"
    assert line.json("import", "--schedules", "django")["same"] == 2


def test_names_of_code_are_those_that_celery_adds_too(
    dsn: str, make_line: MakeLine, redis_url: str
) -> None:
    """RedBeat stores Celery's own entry for old results; it comes with the code."""
    line = make_line(dsn, result_backend="db+sqlite://", beat_schedule=SCHEDULE)
    text = {
        "name": "celery.backend_cleanup",
        "task": "celery.backend_cleanup",
        "schedule": {"__type__": "crontab", "minute": "0", "hour": "4"},
    }
    key = "redbeat:celery.backend_cleanup"
    with redis.Redis.from_url(redis_url) as client:
        client.hset(key, "definition", json.dumps(text))
        client.zadd("redbeat::schedule", {key: 1})
    told = line.json("import", "--schedules", "redbeat", redis_url, "--dry-run")
    assert verdicts(told) == {"celery.backend_cleanup": "code"}


LATE = """
from fieldapp import app

@app.task
def clean(): pass

@app.on_after_finalize.connect
def add(sender, **_):
    sender.add_periodic_task(86_400.0, clean.s(), name="clean daily")
"""


def test_entries_that_modules_add_after_finalizing_are_codes(
    tmp_path: Path, dsn: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that are discovered are imported before the app is finalized.

    ``on_after_finalize`` is sent once: entries of later modules were imported as
    stored schedules, without their last runs, and `set` took their names.
    """
    (tmp_path / "fieldapp" / "jobs").mkdir(parents=True)
    (tmp_path / "fieldapp" / "__init__.py").write_text(
        "from celery import Celery\n"
        f"app = Celery('proj', broker='memory://', set_as_current=False)\n"
        f"app.conf.pecker_dsn = {dsn!r}\n"
        "app.autodiscover_tasks(['fieldapp.jobs'])\n"
    )
    (tmp_path / "fieldapp" / "jobs" / "__init__.py").write_text("")
    (tmp_path / "fieldapp" / "jobs" / "tasks.py").write_text(LATE)
    monkeypatch.syspath_prepend(tmp_path)
    app = import_module("fieldapp").app
    line = Line(app, pecker)
    last = SYSTEM.now().replace(microsecond=0) - timedelta(hours=5)
    text = {"__type__": "interval", "every": 86_400.0}
    stamp = {"__type__": "datetime", "timezone": "UTC"} | {
        part: getattr(last, part)
        for part in ("year", "month", "day", "hour", "minute", "second")
    }
    key = "redbeat:clean daily"
    stored = {"name": "clean daily", "task": "fieldapp.jobs.tasks.clean"}
    with redis.Redis.from_url(redis_url) as client:
        client.hset(key, "definition", json.dumps({**stored, "schedule": text}))
        client.hset(key, "meta", json.dumps({"last_run_at": stamp}))
        client.zadd("redbeat::schedule", {key: 1})
    try:
        refused = line("set", "clean daily", "--task", "t", "--every", "5")
        assert refused.exit_code == 1
        assert "'clean daily'" in refused.stderr
        done = line.json("import", "--schedules", "redbeat", redis_url)
        assert verdicts(done) == {"clean daily": "code"}
        assert line.json("schedules") == {"schedules": []}
        kept = line.json("export")["clean daily"]
        assert datetime.fromisoformat(kept) == last
    finally:
        app.close()
        for name in [one for one in sys.modules if one.startswith("fieldapp")]:
            del sys.modules[name]
