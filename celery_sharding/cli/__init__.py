"""``celery -A proj sharding …``: the command line.

``context`` is what every command works with. A command is imported when it is called.

    list, show           which jobs there are; one of them, with its shards
    watch                a progress bar for each layer, until the job has ended
    errors               the items that failed, all of them
    retry, rerun         failed items once more; chosen shards once more
    pause, resume, cancel, concurrency      what people do to a job

Every command waits for PostgreSQL in bounded time, and needs nothing else. Exit codes:
0 yes or done; 1 no, or refused; 2 not understood; 3 it is unknown, because the
server gave no answer.
"""

from celery_pecker.surfaces.console.group import LazyGroup
from celery_sharding.settings import ShardingSettings

SETTINGS = ShardingSettings
"""Declared once this is imported, so that workers refuse those that are misspelt."""

COMMANDS = {
    "cancel": "celery_sharding.cli.actions:cancel",
    "concurrency": "celery_sharding.cli.actions:concurrency",
    "errors": "celery_sharding.cli.errors:errors",
    "list": "celery_sharding.cli.listing:list_",
    "pause": "celery_sharding.cli.actions:pause",
    "rerun": "celery_sharding.cli.actions:rerun",
    "resume": "celery_sharding.cli.actions:resume",
    "retry": "celery_sharding.cli.actions:retry",
    "show": "celery_sharding.cli.showing:show",
    "watch": "celery_sharding.cli.watch:watch",
}

sharding = LazyGroup(
    "sharding",
    summary="Sharded jobs: how far they are, and what can be done to them.",
    commands=COMMANDS,
)
