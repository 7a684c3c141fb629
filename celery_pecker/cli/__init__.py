"""``celery -A proj pecker …``: the command line.

``desk`` is what every command works at: settings, reader, one way to print and one to
fail. The commands are read only when they are called, since the celery command imports
this package for whatever it is asked to do, starting workers too.

    migrate              the tables
    tasks, next          what there is and when it is due
    explain              why a task did not run
    run, pause, resume   what people do to an entry
    health, doctor       for probes, and for people whose probes fail
    import, export       from another scheduler, and back
    flower               Flower with our pages, where it is installed

Every command waits for a server in bounded time. Exit codes: 0 yes or done; 1 no, or
refused; 2 not understood; 3 it could not be told, because a server gave no answer.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from celery_pecker import declarations, worker

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
declarations.watch_for_twins()
worker.connect()

COMMANDS = {
    "doctor": "doctor:doctor",
    "explain": "explain:explain",
    "export": "transfer:export",
    "health": "health:health",
    "import": "transfer:import_",
    "migrate": "migrate:migrate",
    "next": "upcoming:next_",
    "pause": "actions:pause",
    "resume": "actions:resume",
    "run": "actions:run",
    "tasks": "tasks:tasks",
}
FLOWER = "celery_pecker.flower.command:flower"


class Group(click.Group):
    """Commands that are imported when they are called, or told of."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        names = {*super().list_commands(ctx), *COMMANDS}
        if find_spec("flower") and find_spec("celery_pecker.flower"):
            names.add("flower")
        return sorted(names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        where = f"{__name__}.{COMMANDS[cmd_name]}" if cmd_name in COMMANDS else None
        if cmd_name == "flower":
            where = FLOWER
        if where is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(name="pecker", cls=Group)
def pecker() -> None:
    """Schedules that keep their pace whatever dies."""
