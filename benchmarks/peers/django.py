"""django-celery-beat: a model for each entry, through Django's ORM."""

from __future__ import annotations

import os
from typing import Any

import django
from celery import Celery
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.environment import TASK, entry, every, given

BATCH = 1000


def settings() -> dict[str, Any]:
    """Return Django's settings: nothing but the schedule, on our PostgreSQL."""
    parts = conninfo_to_dict(given("DSN"))
    options = f"{parts.get('options', '')} -csearch_path={given('SCHEMA')}"
    return {
        "INSTALLED_APPS": ["django_celery_beat"],
        "SECRET_KEY": given("SCHEMA"),
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
        "DATABASES": {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts.get("dbname", "postgres"),
                "USER": parts.get("user", ""),
                "PASSWORD": parts.get("password", ""),
                "HOST": parts.get("host", ""),
                "PORT": str(parts.get("port", "")),
                "CONN_MAX_AGE": None,
                "OPTIONS": {"options": options.strip()},
            }
        },
    }


def configure(app: Celery) -> None:
    """The app finds its entries by Django's ORM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.peers.django_settings")
    django.setup()
    app.conf.beat_max_loop_interval = 1


def load(_app: Celery, entries: int) -> None:
    """The tables are there, and the entries in them."""
    call_command("migrate", verbosity=0)
    # models can be imported only now that Django is set up
    from django_celery_beat.models import (  # noqa: PLC0415
        IntervalSchedule,
        PeriodicTask,
        PeriodicTasks,
    )

    interval = IntervalSchedule.objects.create(**_interval(every()))
    PeriodicTask.objects.bulk_create(
        [
            PeriodicTask(
                name=entry(number), task=TASK, args=f"[{number}]", interval=interval
            )
            for number in range(entries)
        ],
        batch_size=BATCH,
    )
    PeriodicTasks.update_changed()


def put(_app: Celery, number: int, period: float) -> None:
    """An entry of that period is stored."""
    from django_celery_beat.models import (  # noqa: PLC0415 — as above
        IntervalSchedule,
        PeriodicTask,
    )

    interval, _ = IntervalSchedule.objects.get_or_create(**_interval(period))
    PeriodicTask.objects.create(
        name=entry(number), task=TASK, args=f"[{number}]", interval=interval
    )


def remove(_app: Celery, number: int) -> None:
    """The entry is gone."""
    _model().objects.get(name=entry(number)).delete()


def edit(_app: Celery, number: int, edition: int) -> None:
    """The entry's task is called with another argument from now on."""
    changed = _model().objects.get(name=entry(number))
    changed.kwargs = f'{{"edition": {edition}}}'
    changed.save()


def _model() -> Any:
    from django_celery_beat.models import PeriodicTask  # noqa: PLC0415 — as above

    return PeriodicTask


def _interval(seconds: float) -> dict[str, Any]:
    if seconds == int(seconds):
        return {"every": int(seconds), "period": "seconds"}
    return {"every": round(seconds * 1e6), "period": "microseconds"}
