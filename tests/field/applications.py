"""Public applications that have Celery, and how each is adopted."""

from __future__ import annotations

from typing import NamedTuple

PECKER = """
CELERY_PECKER_DSN = {dsn!r}
CELERY_PECKER_WORKER = ()
CELERY_BEAT_SCHEDULE = {{
    "field": {{"task": {task!r}, "schedule": 5.0}},
}}
"""
"""What docs/how-to/django.md asks for."""
RAN = """
from celery import signals as _signals


@_signals.task_success.connect(weak=False)
def _note(sender=None, **_):
    with open({folder!r} + "/ran.txt", "a") as _file:
        _file.write(sender.request.id + "\\n")
"""
"""Notes what ran: an application may log where, and what, it likes."""

NAUTOBOT = """
from nautobot.core.settings import *

SECRET_KEY = "field" * 20
ALLOWED_HOSTS = ["*"]
INSTALLATION_METRICS_ENABLED = False
CACHES["default"]["LOCATION"] = {redis!r}
CELERY_BROKER_URL = {redis!r}
DATABASES["default"].update(
    ENGINE="django.db.backends.postgresql", CONN_MAX_AGE=0, **{database!r}
)
"""
PRETIX = """
import os
from pathlib import Path

Path("pretix.cfg").write_text('''
[pretix]
datadir={folder}/data
url=http://localhost
[django]
secret=fieldfieldfieldfieldfieldfieldfieldfieldfieldfield
[database]
backend=postgresql
[redis]
location={redis}
[celery]
broker={redis}
backend={redis}
''')
os.environ["PRETIX_CONFIG_FILE"] = "pretix.cfg"
from pretix.settings import *

DATABASES["default"].update({database!r})
"""


class Application(NamedTuple):
    """One application, as it stands in the registry."""

    requirement: str
    app: str
    """Of ``celery -A``."""
    settings: str
    """Its settings, before ours; the file is ``field_settings.py``."""
    task: str
    """A task of its own that takes no arguments, and asks its database."""


ADOPTED = {
    "nautobot": Application(
        "nautobot==3.2.7",
        "nautobot.core.celery",
        NAUTOBOT,
        "nautobot.core.tasks.get_releases",
    ),
    "pretix": Application(
        "pretix==2026.8.0",
        "pretix.celery_app",
        PRETIX,
        "pretix.base.services.datasync.sync_all",
    ),
}
RESOLVED = (
    "apache-superset==6.1.0",
    "weblate==2026.10.1",
    *(one.requirement for one in ADOPTED.values()),
)
"""What has to be resolved beside ours, and to keep each of its versions."""
