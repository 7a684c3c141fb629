"""What stands around the tasks of one worker."""

from __future__ import annotations

from typing import Any

from billiard import get_start_method
from celery import Celery
from celery.signals import worker_shutdown

from celery_pecker import tracing
from celery_pecker.errors import Misconfigured
from celery_pecker.ground import Refused
from celery_pecker.runs.guard import Guard, install
from celery_pecker.settings import Settings
from celery_pecker.worker.pools import kind_of

SPAWNED = "celery_pecker.worker.spawned"


def guarded(worker: Any) -> Guard:
    """Guard the runs of a worker that is being put together."""
    app, kind = worker.app, kind_of(worker.pool_cls)
    try:
        guard = guard_tasks(app, pool_kind=kind, host=worker.hostname)
    except Misconfigured as error:
        raise Refused(str(error)) from error
    if kind == "prefork" and spawns(worker):
        app.conf.include = (*app.conf.include, SPAWNED)
    # After the pool has ended: until then runs end.
    worker_shutdown.connect(lambda **_: guard.flush(), sender=worker, weak=False)
    return guard


def guard_tasks(app: Celery, *, pool_kind: str, host: str = "") -> Guard:
    """Guard the runs of the tasks that an app has by now; raise Misconfigured."""
    settings = Settings.read(app.conf, main=app.main)
    tracing.install(settings)
    return install(app, pool_kind=pool_kind, settings=settings, host=host)


def spawns(worker: Any) -> bool:
    """Say whether the processes of its pool are fresh interpreters."""
    return worker.pool_start_method != "fork" or get_start_method() != "fork"
