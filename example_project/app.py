"""The service's Celery app: two entries in an ordinary ``beat_schedule``.

Run any number of each::

    celery -A example_project.app beat -S pecker --pidfile=
    celery -A example_project.app worker -P threads -Q sweep,checks

A worker that starts with ``MEETINGS_LOCAL=1`` is a scheduler too, and runs the pulse
itself: no broker is needed for it.
"""

from __future__ import annotations

import os

from celery import Celery

DSN = os.environ.get("MEETINGS_DSN", "postgresql://postgres@127.0.0.1:5432/meetings")
REDIS_URL = os.environ.get("MEETINGS_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("MEETINGS_KEY_PREFIX", "")

app = Celery("meetings")
app.conf.update(
    broker_url=REDIS_URL,
    # On a Redis that others use too, every key of ours begins with this.
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    imports=("example_project.tasks",),
    task_ignore_result=True,
    # A backlog of checks must not stand before the sweep that measures the backlog.
    task_routes={
        "example_project.tasks.sweep": {"queue": "sweep"},
        "example_project.tasks.check": {"queue": "checks"},
    },
    worker_prefetch_multiplier=1,
    pecker_dsn=DSN,
    pecker_worker={"scheduler"} if os.environ.get("MEETINGS_LOCAL") == "1" else set(),
    # None: the default, below the temporary folder.
    pecker_heartbeat_dir=os.environ.get("MEETINGS_HEARTBEATS"),
    beat_schedule={
        "sweep": {
            "task": "example_project.tasks.sweep",
            "schedule": 1.0,
            "pecker": {"timeout": 0.9},
        },
        "pulse": {
            "task": "example_project.tasks.pulse",
            "schedule": 1.0,
            "pecker": {"run": "local", "timeout": 0.9},
        },
    },
)
