"""What every command works with: app, settings, one way to print and one to fail."""

import json as jsons
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property, wraps
from typing import Any, ClassVar, Concatenate, NoReturn, Self

import click
from celery import Celery
from celery.bin.base import CeleryCommand
from rich.console import Console

from celery_pecker.kernel.app_modules import own_app
from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.schedules.overview.verdicts import Explanation
from celery_pecker.surfaces.console import exits
from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.console.exits import Unanswered
from celery_pecker.surfaces.console.group import subcommand_follows

WHOLE_LINES = 10_000
"""Characters of a line where no terminal limits it: a pipe gets whole lines."""


def number(
    name: str,
    least: float,
    most: float,
    text: str,
    default: float | None = None,
    *short: str,
) -> Callable[[Any], Any]:
    """Return the option for a number, which is a whole one where its bounds are."""
    kind = click.IntRange if isinstance(least, int) else click.FloatRange
    return click.option(
        *(*short, name),
        type=kind(least, most),  # type: ignore[arg-type]  # of the same kind
        default=default,
        show_default=default is not None,
        help=text,
    )


as_json = click.option("--json", is_flag=True, help="For programs: JSON, one document.")


def turns(
    every: float,
    times: int | None = None,
    *,
    clock: Callable[[], float] = SYSTEM.monotonic,
) -> Iterator[int]:
    """Yield 0, 1, 2 … at that pace, so many times or for ever.

    Each is due so long after the one before was due: what a look takes is no drift. A
    look that took longer than a turn leaves turns out.
    """
    began = clock()
    nth = done = 0
    while times is None or done < times:
        if done:
            passed = clock() - began
            nth = max(nth + 1, int(passed / every))
            pause(max(began + nth * every - clock(), 0.0))
        yield nth
        done += 1


@dataclass(kw_only=True)
class CommandContext:
    """One call of one command; each package adds its settings and its store."""

    no_answer: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors after which the answer is unknown: exit code 3."""
    failures: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors that are one line and exit code 1."""

    app: Celery
    settings: Any
    json: bool

    @classmethod
    def read_settings(cls, app: Celery) -> Any:
        """Return the settings of the package."""
        raise NotImplementedError

    @classmethod
    @contextmanager
    def open(cls, ctx: click.Context, *, json: bool = False) -> Iterator[Self]:
        """Yield the context; an error in it is one line and an exit code."""
        app: Celery = ctx.obj.app
        context = None
        try:
            context = cls(app=app, settings=cls.read_settings(app), json=json)
            yield context
        except cls.no_answer as error:
            raise Unanswered(own_app(str(error))) from error
        except cls.failures as error:
            message = str(error) + (context.hint(error) if context else "")
            raise click.ClickException(own_app(message)) from error
        finally:
            if context is not None:
                context.close()

    @classmethod
    def opened(
        cls, command: Callable[Concatenate[Self, ...], None]
    ) -> Callable[..., None]:
        """Decorate what a command does: it gets a context, which is closed after it."""

        @click.pass_context
        @wraps(command)
        def call(ctx: click.Context, /, *, json: bool = False, **options: Any) -> None:
            with cls.open(ctx, json=json) as context:
                command(context, **options)

        return call

    @classmethod
    def command(
        cls,
        name: str | None = None,
        *,
        group: click.Group | None = None,
        last: Sequence[Callable[[Any], Any]] = (),
    ) -> Callable[[Callable[Concatenate[Self, ...], None]], click.Command]:
        """Make a command, of a group or not, of what it does in an open context.

        ``last``: options behind its own; behind them comes ``--json``.
        """

        def make(command: Callable[Concatenate[Self, ...], None]) -> click.Command:
            maker: Any = group or click
            made: click.Command = maker.command(name, cls=CeleryCommand)(
                _ending(cls.opened(command), *last, as_json)
            )
            return made

        return make

    @classmethod
    def group(cls, command: Callable[Concatenate[Self, ...], None]) -> click.Group:
        """Make a group of what it does where none of its commands is called."""

        @click.pass_context
        @wraps(command)
        def call(ctx: click.Context, /, *, json: bool, **options: Any) -> None:
            if not subcommand_follows(ctx):
                with cls.open(ctx, json=json) as context:
                    command(context, **options)

        named = click.group(name=command.__name__, invoke_without_command=True)
        return named(_ending(call, as_json))

    def hint(self, error: Exception) -> str:
        """Return what an error is shown with, such as a name that was meant."""
        return ""

    def close(self) -> None:
        """Close what was opened."""

    @cached_property
    def console(self) -> Console:
        """Where people read; a pipe gets whole lines."""
        console = Console(highlight=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = WHOLE_LINES
        return console

    @property
    def zone(self) -> tzinfo:
        """The time zone of the app, in which people read instants."""
        zone: tzinfo = self.app.timezone
        return zone

    def print_json(self, document: object) -> bool:
        """Print the document if JSON was asked for; return whether it was."""
        if self.json:
            text = jsons.dumps(plain(document), indent=2, ensure_ascii=False)
            click.echo(text)
        return self.json

    def print_line(self, document: object) -> None:
        """Print the document as one line of JSON."""
        click.echo(jsons.dumps(plain(document), ensure_ascii=False))

    def print_verdict(self, reply: Explanation, name: str) -> None:
        """Print why something runs or does not; trouble leaves with NO."""
        if not self.print_json(reply):
            self.print(f"[bold]{reply.verdict}[/]: ", reply.why)
            if reply.advice:
                self.print("  → ", reply.advice.replace("NAME", name))
            for fact in reply.facts:
                self.print("  · ", fact)
        if reply.trouble:
            self.leave(exits.NO)

    def print(self, marked: str, *plainly: str) -> None:
        """Print a text with marks, then texts that may look like marks and are none."""
        self.console.print(marked, end="")
        for text in plainly:
            self.console.print(own_app(text), end="", markup=False)
        self.console.print()

    @staticmethod
    def leave(code: int) -> NoReturn:
        """End with an exit code."""
        exits.leave(code)


def _ending(call: Any, *options: Callable[[Any], Any]) -> Any:
    """Add options behind those that it has: click reads them from the last one on."""
    for option in options:
        call = option(call)
        call.__click_params__.insert(0, call.__click_params__.pop())
    return call
