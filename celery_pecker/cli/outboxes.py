"""Which outboxes an app has, for commands."""

from __future__ import annotations

from celery_pecker.cli.context import Context
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import settings_of


def known(context: Context) -> dict[str, Settings]:
    """Return the settings of each outbox by its name, those of task modules too."""
    context.app.loader.import_default_modules()
    context.app.finalize()
    default = context.settings
    return {"default": default, **settings_of(context.app, default)}
