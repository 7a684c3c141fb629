"""Which outboxes an app has, for commands."""

from __future__ import annotations

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import settings_of
from celery_pecker.surfaces.cli.context import Context


def known(context: Context) -> dict[str, Settings]:
    """Return the settings of each outbox by its name, those of task modules too."""
    load_app(context.app)
    default = context.settings
    return {"default": default, **settings_of(context.app, default)}
