"""A group of commands that are imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import click
from click.core import ParameterSource
from click_didyoumean import DYMGroup


def subcommand_follows(ctx: click.Context) -> bool:
    """Return whether a command of the group is called, and not the group itself.

    Options of the group that stand before it would be dropped without a word: rows of
    another outbox than the one that was named would be changed.

    Raises:
        click.UsageError: an option stands before the command.

    """
    command = ctx.invoked_subcommand
    if command is None:
        return False
    for param in ctx.command.params:
        if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
            message = (
                f"{param.opts[0]} stands before {command!r}, where it says nothing;"
                f" options of a command stand behind it"
            )
            raise click.UsageError(message, ctx)
    return True


class LazyGroup(DYMGroup):
    """Import a command when it is called, or its help is asked for.

    The `celery` command imports each group for whatever it is asked to do, starting
    workers too: a group must cost nothing.

    Args:
        summary: What the group is for, shown by --help.
        commands: Name of a command to ``module:attribute``.
        needs: Name of a command to a distribution's module without which the command
            is not there.
        usual: The command that is called where none is named.

    """

    def __init__(
        self,
        name: str,
        *,
        summary: str,
        commands: Mapping[str, str],
        needs: Mapping[str, str] | None = None,
        usual: str = "",
    ) -> None:
        super().__init__(name=name, help=summary)
        self._usual = usual
        self._places = commands
        self._needs = needs or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Call the usual command where none is named: nothing but options of it."""
        named = args and not args[0].startswith("-")
        if self._usual and not named and not {*ctx.help_option_names} & {*args}:
            args = [self._usual, *args]
        return cast("list[str]", super().parse_args(ctx, args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        present = [
            name
            for name in self._places
            if name not in self._needs or find_spec(self._needs[name])
        ]
        return sorted({*super().list_commands(ctx), *present})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if cmd_name not in self._places:
            return cast("click.Command | None", super().get_command(ctx, cmd_name))
        module, _, attribute = self._places[cmd_name].partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))
