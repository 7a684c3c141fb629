"""Stored schedules that are to run in workers run in workers whose code has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery

from celery_pecker.schedules import Schedules
from tests.integration.worker.stand import PLAIN, Stand
from tests.nodes import READY

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("early", [True, False])
def test_a_worker_begins_to_run_local_schedules_when_there_are_some(
    stand: Callable[..., Stand], dsn: str, early: bool
) -> None:
    """Stored before its start, or while it works; one of an unknown task is parked."""
    app = Celery("guarded", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn)
    schedules = Schedules(app)
    one = stand(forgetful=True)

    def store() -> None:
        for task in ("mark", "nobody.knows"):
            schedules.set(task, task=task, schedule=0.5, run="local", args=["stored"])

    if early:
        store()
    one.start(*PLAIN, pecker_dsn=dsn, pecker_worker=["scheduler"])
    one.until(lambda: READY in one.log, "the scheduler is ready")
    if not early:
        store()
    one.until(lambda: one.journal["ran stored"] >= 2, "it runs")
    one.until(lambda: "'nobody.knows', version 1, cannot be read" in one.log, "parked")
    schedules.close()
