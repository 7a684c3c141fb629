"""Stores of other schedulers, written by their own libraries, in a process apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

REDBEAT = """
from celery import Celery
from celery.schedules import schedule
from redbeat.schedulers import RedBeatSchedulerEntry, ensure_conf
app = Celery("proj", broker={redis!r})
ensure_conf(app)
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
SQLALCHEMY = """
from celery import Celery
app = Celery("proj")
app.conf.beat_dburi = {sqlalchemy!r}
"""
SCENES = {
    "redbeat": REDBEAT,
    "django_celery_beat": DJANGO,
    "sqlalchemy_celery_beat": SQLALCHEMY,
}


def scene(peer: str, *, dsn: str, redis_url: str) -> str:
    """Return how a script of a library's users begins, on these servers."""
    given = {**conninfo_to_dict(dsn), "engine": "django.db.backends.postgresql"}
    places = (
        ("engine", "engine"),
        ("name", "dbname"),
        ("user", "user"),
        ("password", "password"),
        ("host", "host"),
        ("port", "port"),
    )
    django = {name.upper(): str(given.get(key) or "") for name, key in places}
    return SCENES[peer].format(
        redis=redis_url,
        django=django,
        sqlalchemy="postgresql+psycopg://" + dsn.partition("://")[2],
    )


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
