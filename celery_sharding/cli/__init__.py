"""``celery -A proj sharding …``: the command line.

``desk`` is what every command works at: settings, ledger, one way to print and one to
fail. The commands are read only when they are called, since the celery command imports
this package for whatever it is asked to do, starting workers too.

    list, show           which jobs there are; one of them, with its shards
    watch                a progress bar for each layer, until the job has ended
    errors               the items that failed, all of them
    retry, rerun         failed items once more; chosen shards once more
    pause, resume, cancel, concurrency      what people do to a job

Every command waits for PostgreSQL in bounded time, and needs nothing else. Exit codes:
0 yes or done; 1 no, or refused; 2 not understood; 3 it could not be told, because the
server gave no answer.
"""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "cancel": "actions:cancel",
    "concurrency": "actions:concurrency",
    "errors": "errors:errors",
    "list": "listing:list_",
    "pause": "actions:pause",
    "rerun": "actions:rerun",
    "resume": "actions:resume",
    "retry": "actions:retry",
    "show": "showing:show",
    "watch": "watch:watch",
}


class Group(click.Group):
    """Commands that are imported when they are called, or told of."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(
            import_module(f"{__name__}.{module}"), attribute
        )
        return command


@click.group(name="sharding", cls=Group)
def sharding() -> None:
    """Sharded jobs: how far they are, and what can be done to them."""
