"""An app whose schedules wait for their databases; the places come from outside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery

app = Celery("scheduled", broker=os.environ.get("THROTTLE_TEST_REDIS", "memory://"))


def of_tenant(
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    headers: Mapping[str, Any],
) -> str | None:
    """Say where a tenant lives, as its message says; other tasks go nowhere."""
    del task
    given = [kwargs.get("tenant"), headers.get("tenant"), *args]
    tenant = next((one for one in given if one), None)
    if tenant == "nobody":
        raise LookupError(tenant)
    return {"acme": "main", "globex": "other"}.get(str(tenant))


@app.task(name="report")
def report(*_: object, **__: object) -> None:
    """Go where the route says."""


@app.task(name="vacuum", throttle="main", shared=False)
def vacuum() -> None:
    """Always go to one database."""


def every_second(task: str, **more: object) -> dict[str, object]:
    """Return an entry that is due each second."""
    return {"task": task, "schedule": 1.0, **more}


app.conf.update(
    pecker_dsn=os.environ.get("THROTTLE_TEST_DSN"),
    pecker_gate="throttle.gate.schedules:gate",
    throttle_redis_url=os.environ.get("THROTTLE_TEST_REDIS", "redis://nowhere"),
    throttle_limits={"main": 1000, "other": 1000},
    throttle_route=of_tenant,
    throttle_estimator="fast",
    task_default_queue="scheduled",
    beat_schedule={
        "by kwargs": every_second("report", kwargs={"tenant": "acme"}),
        "by args": every_second("report", args=("acme",)),
        "by headers": every_second("report", options={"headers": {"tenant": "acme"}}),
        "by option": every_second("vacuum"),
        "of another": every_second("report", kwargs={"tenant": "globex"}),
        "of nobody": every_second("report", kwargs={"tenant": "nobody"}),
        "not routed": every_second("elsewhere.unknown"),
    },
)
HOT = {"by kwargs", "by args", "by headers", "by option"}
"""Entries that go to `main`."""
