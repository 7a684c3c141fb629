"""What stands around the tasks of one worker."""

from __future__ import annotations

from typing import Any

from celery_pecker import tracing
from celery_pecker.errors import Misconfigured
from celery_pecker.ground import Refused
from celery_pecker.runs.guard import Guard, install
from celery_pecker.settings import Settings
from celery_pecker.worker.pools import kind_of


def guard(worker: Any) -> Guard:
    """Guard the runs of a worker that is being put together."""
    app = worker.app
    try:
        settings = Settings.read(app.conf, main=app.main)
        tracing.install(settings)
        return install(app, pool_kind=kind_of(worker.pool_cls), settings=settings)
    except Misconfigured as error:
        raise Refused(str(error)) from error
