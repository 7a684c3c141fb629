"""Why a message is never run, where workers that answer do not take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.outbox import Outbox
from celery_pecker.surfaces.findings.broker import takers
from celery_pecker.surfaces.views.outbox import explain
from tests.integration.worker.crew import Crew


@pytest.mark.cluster
def test_a_live_worker_says_what_it_does_not_take(
    crews: Callable[..., Crew], dsn: str, redis_url: str
) -> None:
    """A message of mode local waits for a worker that runs such messages."""
    crew = crews("taken", dsn=dsn, broker=redis_url)
    with Celery("taken", broker=redis_url, set_as_current=False) as app:
        conf: Any = app.conf
        conf.update(crew.conf)
        outbox = Outbox(app)
        outbox.send(app.signature("proj.near"), mode="local")
        outbox.close()
        database = Database.of(outbox.settings, role="test")

        def why() -> str:
            found = explain(database, 1, takers(app))
            assert found is not None
            return f"{found[1].verdict}: {found[1].why}"

        assert takers(app) is None
        assert why().startswith("waiting: it is due, for a worker with pecker_worker")
        worker = crew.worker("solo", wait=False)
        crew.until(lambda: "ready." in worker.life_log(), "the worker takes messages")
        # Workers have a second to answer, which a full machine may not give them.
        never = "no_worker: it is never run: no worker runs what was"
        crew.until(lambda: why().startswith(never), "the worker answers")
        database.close()
