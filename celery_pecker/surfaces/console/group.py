"""A group of commands that are imported when they are called."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import click
from celery.bin.base import CeleryCommand
from click.core import ParameterSource
from click_didyoumean import DYMGroup

from celery_pecker.kernel.app_modules import own_app


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
            raise click.UsageError(
                f"{param.opts[0]} stands before {command!r}, where it says nothing;"
                f" options of a command stand behind it",
                ctx,
            )
    return True


@cache
def examples() -> Sequence[str]:
    """Return the examples of all commands, a line each, without ``celery -A proj``."""
    text = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    return text.splitlines()


def illustrated(command: click.Command, path: str) -> click.Command:
    """Return a command whose help has its examples, what it requires first.

    A group has its commands so, and `list` for what it does without any of them.
    """
    if isinstance(command, LazyGroup):
        return command
    if isinstance(command, click.Group):
        command.commands.setdefault("list", alone(command))
        for name, one in command.commands.items():
            illustrated(one, f"{path} {name}")
        return command
    command.params.sort(key=lambda one: not one.required)
    if mine := [one for one in examples() if f"{one} ".startswith(f"{path} ")]:
        lines = "\n".join(f"  celery -A proj {one}" for one in mine)
        command.epilog = own_app(f"\b\nExamples:\n{lines}")
    return command


def alone(group: click.Group) -> click.Command:
    """Return what a group does where none of its commands is called."""
    own = [*group.params]
    return CeleryCommand("list", params=own, callback=group.callback, help=group.help)


class LazyGroup(DYMGroup):
    """Import a command when it is called, or its help is asked for.

    The `celery` command imports each group for whatever it is asked to do, starting
    workers too: a group must cost nothing.

    Args:
        summary: What the group is for, shown by --help.
        commands: Name of a command to ``module:attribute``; words behind it name a
            command of that group.
        needs: Name of a command to a distribution's module without which the command
            is not there.
        usual: The command that is called where none is named.
        hidden: Names that help does not have: they have another one by now.
        under: The group in which it lies.

    """

    def __init__(  # noqa: PLR0913  # what a group is
        self,
        name: str,
        *,
        summary: str,
        commands: Mapping[str, str],
        needs: Mapping[str, str] | None = None,
        usual: str = "",
        hidden: Collection[str] = (),
        under: str = "",
    ) -> None:
        super().__init__(name=name, help=summary)
        self._usual = usual
        self._places = commands
        self._needs = needs or {}
        self._hidden = hidden
        self._path = f"{under} {name}".strip()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Call the usual command where none is named: nothing but options of it."""
        named = args and not args[0].startswith("-")
        completes = ctx.resilient_parsing  # a shell: the word is still to come
        usual = self._usual and not named and not completes
        if usual and not {*ctx.help_option_names} & {*args}:
            args = [self._usual, *args]
        return cast("list[str]", super().parse_args(ctx, args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands; help leaves out those that are hidden."""
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
        module, _, words = self._places[cmd_name].partition(":")
        attribute, *verbs = words.split()
        found: click.Command = getattr(import_module(module), attribute)
        for verb in verbs:
            if isinstance(found, click.Group):
                found = found.get_command(ctx, verb) or found
        if " " in self._path and isinstance(found, click.Group):
            found = alone(found)
        found = illustrated(found, f"{self._path} {cmd_name}")
        if cmd_name in self._hidden:
            found = copy(found)
            found.hidden = True
        return found
