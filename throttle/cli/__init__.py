"""``celery -A proj throttle …``: the command line.

``desk`` is what every command works at: settings, store, one way to print and one to
fail. The commands are read only when they are called, since the celery command imports
this package for whatever it is asked to do, starting workers too.

    top       traffic against the limit, shares and what is held, live
    record    a run: traffic, limit and held over time, as a chart or as JSON
    limit     another limit for a while, for the whole fleet
    check     what a worker would say of the settings, Redis and the route at its start
    serve     the service before Redis

Every command waits for Redis in bounded time. Exit codes: 0 yes or done; 1 no, or
refused; 2 not understood; 3 it could not be told, because a server gave no answer.
"""

from __future__ import annotations

from importlib import import_module

import click

from throttle import worker

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
worker.connect()

COMMANDS = {
    "check": "check:check",
    "limit": "limit:limit",
    "record": "record:record",
    "serve": "serve:serve",
    "top": "top:top",
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


@click.group(name="throttle", cls=Group)
def throttle() -> None:
    """A gate before the pool slot: what it sees, and what it holds."""
