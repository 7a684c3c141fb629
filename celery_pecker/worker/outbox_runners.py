"""The runners of recorded tasks of one worker: one for each outbox of its app."""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.schema_check import StartRefused
from celery_pecker.kernel.settings import Settings
from celery_pecker.local.outbox_runner import OutboxRunner
from celery_pecker.outbox.app import outboxes
from celery_pecker.outbox.runs.services import DEFAULT
from celery_pecker.pools import kind_of
from celery_pecker.worker.run_guards import messages_of


def runners(worker: Any) -> list[OutboxRunner]:
    """Return them, not yet started; what is misconfigured ends the worker."""
    app = worker.app
    try:
        known: dict[str, Settings] = {one.name: one.settings for one in outboxes(app)}
        if not known:
            known = {DEFAULT: Settings.read(app.conf, main=app.main)}
        messages = messages_of(app)
        made = []
        for name, settings in known.items():
            service = messages.service(name)
            assert service is not None  # noqa: S101  # it is of these outboxes
            made.append(
                OutboxRunner(
                    app,
                    service,
                    settings,
                    hostname=worker.hostname,
                    pool_kind=kind_of(worker.pool_cls),
                    name=name,
                )
            )
    except Misconfigured as error:
        raise StartRefused(str(error)) from error
    return made
