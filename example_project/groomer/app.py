"""The groomer's app: two tasks each second, an outbox, and observers."""

from __future__ import annotations

import os

from celery import Celery
from psycopg.conninfo import make_conninfo

from celery_pecker.observers import Observers
from celery_pecker.outbox import Outbox

DSN = os.environ.get("GROOMER_DSN", "postgresql://postgres@127.0.0.1:5432/meetings")
REDIS_URL = os.environ.get("GROOMER_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("GROOMER_KEY_PREFIX", "")
SCHEMA = os.environ.get("GROOMER_SCHEMA", "public")
GATEWAY = int(os.environ.get("GROOMER_GATEWAY", "7100"))
"""Port of the gateway to the peers."""
SERVICE_DSN = make_conninfo(DSN, options=f"-c search_path={SCHEMA}")

app = Celery("groomer")
app.conf.update(
    broker_url=REDIS_URL,
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    imports=("example_project.groomer.tasks", "example_project.groomer.watchers"),
    task_ignore_result=True,
    task_default_queue="groomer",
    pecker_dsn=DSN,
    pecker_schema=SCHEMA,
    pecker_worker={"scheduler"},
    # A host that dies with its supervisor is missed for so long. The default of 5.0
    # would be most of the eight seconds that a server is frozen in the act.
    pecker_observers_lease=3.0,
    pecker_heartbeat_dir=os.environ.get("GROOMER_HEARTBEATS"),
    beat_schedule={
        name: {
            "task": f"example_project.groomer.tasks.{name}",
            "schedule": 1.0,
            "pecker": {"run": "local", "timeout": 0.9},
        }
        for name in ("watch", "sweep")
    },
)
outbox = Outbox(app)
observers = Observers(app)
