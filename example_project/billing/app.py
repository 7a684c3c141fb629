"""The billing's app: a broker, a database, and an outbox in that database."""

from __future__ import annotations

import os

from celery import Celery
from psycopg.conninfo import make_conninfo

from celery_pecker.outbox import Outbox

DSN = os.environ.get("BILLING_DSN", "postgresql://postgres@127.0.0.1:5432/meetings")
REDIS_URL = os.environ.get("BILLING_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("BILLING_KEY_PREFIX", "")
SCHEMA = os.environ.get("BILLING_SCHEMA", "public")
SERVICE_DSN = make_conninfo(DSN, options=f"-c search_path={SCHEMA}")
"""Where the calls and the bills are: beside the outbox, in the same database."""

app = Celery("billing")
app.conf.update(
    broker_url=REDIS_URL,
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    imports=("example_project.billing.tasks",),
    task_ignore_result=True,
    task_default_queue="billing",
    pecker_dsn=DSN,
    pecker_schema=SCHEMA,
    pecker_heartbeat_dir=os.environ.get("BILLING_HEARTBEATS"),
    # Half a minute by default. A dead relay's batch waits for so long.
    pecker_outbox_lease=4.0,
)
outbox = Outbox(app)
