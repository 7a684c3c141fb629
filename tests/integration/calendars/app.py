"""An app whose entries go by a calendar, for schedulers as processes of their own."""

from __future__ import annotations

import os

from celery import Celery

from celery_pecker.calendars import cron, splay

app = Celery("tasks", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    task_default_queue=os.environ.get("PECKER_TEST_QUEUE", "celery"),
    pecker_dsn=os.environ.get("PECKER_TEST_BEAT_DSN"),
    beat_schedule={
        "seconds": {
            "task": "tasks.seconds",
            "schedule": cron("* * * * * *", zone="Asia/Kathmandu"),
        },
        "splayed": {"task": "tasks.splayed", "schedule": splay(1.0)},
    },
)
