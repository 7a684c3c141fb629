"""The two schedules of celery_sharding, in the app's own beat_schedule."""

from __future__ import annotations

import logging
from typing import Any

from celery_sharding.messages import PURGE, SWEEP
from celery_sharding.settings import ShardingSettings

HOUR = 3_600.0
LOGGERS = ("celery.app.trace", "celery.worker.strategy", "celery_pecker.beat")
"""Where Celery writes that a task was received, and that it succeeded, and where a
scheduler writes that it woke."""


class _Unchanged(logging.Filter):
    """Drops the lines of each second that a sweep came, and went well."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be written."""
        if record.levelno > logging.INFO:
            return True
        data: Any = getattr(record, "data", None)
        wanted: Any = getattr(record, "wanted", ())
        ours = isinstance(data, dict) and data.get("name") == SWEEP
        return not ours and [one.entry.name for one in wanted[:2]] != [SWEEP]


UNCHANGED = _Unchanged()


def declare(app: Any) -> None:
    """Add the sweeper and the purge to the app's schedule, if it is on.

    Where each worker is a scheduler (pecker_worker) they run on a thread of the worker
    that won them: no broker is asked. Else they are sent, and a message that waited
    for its successor is dropped. An entry of that name that is there already stays.
    """
    settings = ShardingSettings.read(app.conf)
    if not settings.sweeper:
        return
    for name in LOGGERS:
        logging.getLogger(name).addFilter(UNCHANGED)
    local = bool(app.conf.get("pecker_worker"))
    schedule = dict(app.conf.beat_schedule or {})
    for task, period in ((SWEEP, settings.sweep), (PURGE, HOUR)):
        schedule.setdefault(task, _entry(task, period, local=local))
    app.conf.beat_schedule = schedule


def _entry(task: str, period: float, *, local: bool) -> dict[str, Any]:
    if local:
        return {"task": task, "schedule": period, "pecker": {"run": "local"}}
    return {"task": task, "schedule": period, "options": {"expires": max(period, 1.0)}}
