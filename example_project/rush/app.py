"""The reminders' app: 4,000 entries that fall due at one moment, and one limit."""

from __future__ import annotations

import os

from celery import Celery

DSN = os.environ.get("RUSH_DSN", "postgresql://postgres@127.0.0.1:5432/meetings")
REDIS_URL = os.environ.get("RUSH_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("RUSH_KEY_PREFIX", "")
MEETINGS = int(os.environ.get("RUSH_MEETINGS", "4000"))
PERIOD = float(os.environ.get("RUSH_PERIOD", "5"))
DATABASE = "meetings"
LIMIT = float(os.environ.get("RUSH_LIMIT", "400"))
"""Statements per second that the database bears while people use the service."""

app = Celery("reminders")
app.conf.update(
    broker_url=REDIS_URL,
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    imports=("example_project.rush.tasks",),
    task_ignore_result=True,
    task_default_queue="reminders",
    pecker_dsn=DSN,
    pecker_schema=os.environ.get("RUSH_SCHEMA", "public"),
    pecker_heartbeat_dir=os.environ.get("RUSH_HEARTBEATS"),
    throttle_redis_url=REDIS_URL,
    throttle_prefix=f"{KEY_PREFIX}throttle",
    throttle_limits={DATABASE: LIMIT},
    throttle_estimator="fast",
    throttle_shadow=os.environ.get("RUSH_SHADOW") == "1",
    beat_schedule={
        f"remind-{meeting:04}": {
            "task": "example_project.rush.tasks.remind",
            "schedule": PERIOD,
            "args": (meeting,),
        }
        for meeting in range(MEETINGS)
    },
)
