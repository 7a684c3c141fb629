"""Which outboxes an app has, for commands."""

from __future__ import annotations

from celery_pecker.cli.context import Context
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import outboxes


def known(context: Context) -> dict[str, Settings]:
    """Return the settings of each outbox by its name.

    An app whose code makes none has the one in its own schema: other services may
    record there.
    """
    context.app.loader.import_default_modules()
    context.app.finalize()
    found = {one.name: one.settings for one in outboxes(context.app)}
    found.setdefault("default", context.settings)
    return found
