"""The snippets of the change-over page, run on what the other schedulers store."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.cli.carried import read
from celery_pecker.kernel.clock import to_us
from tests.docs.pages import ROOT, steps
from tests.integration.cli.conftest import Line

PAGE = ROOT / "docs/how-to/change-over.md"
LAST = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
LATER = LAST + timedelta(days=1)

REDBEAT = """
from celery import Celery
from celery.schedules import schedule
from redbeat.schedulers import RedBeatSchedulerEntry, ensure_conf
app = Celery("proj", broker={redis!r})
ensure_conf(app)
"""
STORE_REDBEAT = """
for name in ("hourly", "sweep/all"):
    entry = RedBeatSchedulerEntry(name, "work", schedule(3600), app=app)
    entry.save()
    entry.reschedule(last_run_at=LAST)
"""
DJANGO = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_celery_beat"], SECRET_KEY="x", USE_TZ=True,
    TIME_ZONE="Europe/Berlin", DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={{"default": {django!r}}},
)
django.setup()
"""
STORE_DJANGO = """
from django.core.management import call_command
from django_celery_beat.models import IntervalSchedule, PeriodicTask
call_command("migrate", verbosity=0)
hour = IntervalSchedule.objects.create(every=1, period="hours")
for name in ("hourly", "sweep/all"):
    PeriodicTask(name=name, task="work", interval=hour, last_run_at=LAST).save()
PeriodicTask.objects.create(name="never", task="work", interval=hour)
"""
SQLALCHEMY = """
from celery import Celery
app = Celery("proj")
app.conf.beat_dburi = {sqlalchemy!r}
"""
STORE_SQLALCHEMY = """
from sqlalchemy_celery_beat.models import IntervalSchedule, Period, PeriodicTask
from sqlalchemy_celery_beat.session import SessionManager
manager = SessionManager()
engine, _ = manager.create_session(app.conf.beat_dburi, schema="celery_schema")
manager.prepare_models(engine, schema="celery_schema")
with manager.session_factory(app.conf.beat_dburi, "celery_schema") as session:
    hour = IntervalSchedule(every=1, period=Period.HOURS)
    session.add(hour)
    session.flush()
    for name, last in (("hourly", LAST), ("sweep/all", LAST), ("never", None)):
        session.add(PeriodicTask(
            name=name, task="work", last_run_at=last,
            schedule_id=hour.id, discriminator=hour.discriminator,
        ))
    session.commit()
"""
PEERS = {
    "redbeat": (REDBEAT, STORE_REDBEAT),
    "django_celery_beat": (DJANGO, STORE_DJANGO),
    "sqlalchemy_celery_beat": (SQLALCHEMY, STORE_SQLALCHEMY),
}


def snippets(peer: str) -> tuple[str, str]:
    """Return what the page says for the way over, and for the way back."""
    over, back = [
        step.text
        for step in steps(PAGE.read_text())
        if step.language == "python" and f"\nfrom {peer}." in step.text
    ]
    return over, back


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_last_runs_come_over_and_go_back(
    peer: str,
    tmp_path: Path,
    dsn: str,
    redis_url: str,
    make_line: Callable[..., Line],
) -> None:
    """To the microsecond; what never ran is left out; `import` takes it all."""
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    given = {**conninfo_to_dict(dsn), "engine": "django.db.backends.postgresql"}
    words = {
        "redis": redis_url,
        "django": {
            name.upper(): str(given.get(key) or "")
            for name, key in (
                ("engine", "engine"),
                ("name", "dbname"),
                ("user", "user"),
                ("password", "password"),
                ("host", "host"),
                ("port", "port"),
            )
        },
        "sqlalchemy": "postgresql+psycopg://" + dsn.partition("://")[2],
    }
    scene, store = PEERS[peer]
    scene = scene.format(**words)
    over, back = snippets(peer)
    constants = f"from datetime import datetime\nLAST = {LAST.isoformat()!r}\n"
    constants += "LAST = datetime.fromisoformat(LAST)\n"
    play(tmp_path, scene, constants + store)
    told = tmp_path / "last.json"
    told.write_text(play(tmp_path, scene, over))
    assert read(told) == {"hourly": to_us(LAST), "sweep/all": to_us(LAST)}
    line = make_line(dsn, pecker_database_timeout=5.0)
    assert line.json("import", str(told))["set"] == 1
    told.write_text(json.dumps({"hourly": LATER.isoformat(), "gone": str(LATER)}))
    play(tmp_path, scene, back)
    told.write_text(play(tmp_path, scene, over))
    assert read(told) == {"hourly": to_us(LATER), "sweep/all": to_us(LAST)}


def play(folder: Path, *parts: str) -> str:
    """Run a script made of parts; return what it printed."""
    script = folder / "script.py"
    script.write_text("\n".join(parts))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("DJANGO")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
