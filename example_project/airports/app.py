"""The import's app: a broker, a database, and how much the database bears."""

from __future__ import annotations

import os

from celery import Celery

from celery_sharding import Sharding

DSN = os.environ.get("AIRPORTS_DSN", "postgresql://postgres@127.0.0.1:5432/airports")
REDIS_URL = os.environ.get("AIRPORTS_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("AIRPORTS_KEY_PREFIX", "")
DATABASE = "airports"
LIMIT = float(os.environ.get("AIRPORTS_LIMIT", "4000"))
"""Statements per second that the database bears beside its other users."""

app = Celery("airports")
app.conf.update(
    broker_url=REDIS_URL,
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    result_backend=REDIS_URL,
    result_backend_transport_options=(
        {"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {}
    ),
    imports=("example_project.airports.tasks",),
    task_default_queue="airports",
    pecker_dsn=DSN,
    pecker_schema=os.environ.get("AIRPORTS_SCHEMA", "public"),
    pecker_heartbeat_dir=os.environ.get("AIRPORTS_HEARTBEATS"),
    pecker_worker={"scheduler"},
    sharding_lease=3.0,
    throttle_redis_url=REDIS_URL,
    throttle_prefix=f"{KEY_PREFIX}throttle",
    throttle_limits={DATABASE: LIMIT},
    throttle_estimator="fast",
)
sharding = Sharding(app)
