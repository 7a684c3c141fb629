"""What every command works at: settings, store, one way to print and one to fail."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import Any, NoReturn

import click
from celery import Celery
from rich.console import Console

from throttle.errors import Away, ThrottleError
from throttle.overview import Looking, Picture, open_store
from throttle.settings import Settings
from throttle.store import CheckedStore
from throttle.store.opening import UNSET

YES, NO, UNKNOWN = 0, 1, 3
"""Exit codes; 2 is click's own, for a command line that it does not understand."""

as_json = click.option("--json", is_flag=True, help="For programs: JSON.")
of_database = click.option(
    "--database", default=None, metavar="NAME", help="This database alone."
)


class Untold(click.ClickException):
    """A server gave no answer: neither yes nor no."""

    exit_code = UNKNOWN


@dataclass(kw_only=True)
class Desk:
    """One call of one command."""

    app: Celery
    settings: Settings
    json: bool

    @classmethod
    @contextmanager
    def open(cls, ctx: click.Context, *, json: bool = False) -> Iterator[Desk]:
        """Give the desk; what goes wrong at it is one line and an exit code."""
        app: Celery = ctx.obj.app
        desk = None
        try:
            desk = cls(app=app, settings=Settings.read(app.conf), json=json)
            yield desk
        except Away as error:
            raise Untold(str(error)) from error
        except ThrottleError as error:
            raise click.ClickException(str(error)) from error
        finally:
            if desk is not None and "store" in desk.__dict__:
                desk.store.close()

    @cached_property
    def console(self) -> Console:
        """Where people read."""
        return Console(highlight=False, soft_wrap=True)

    @cached_property
    def store(self) -> CheckedStore:
        """Redis, or the service before it; connected when first asked."""
        return open_store(self.settings)

    @cached_property
    def looking(self) -> Looking:
        """Pictures, one after the other."""
        return Looking(self.store, self.settings)

    def picture(self, database: str | None = None) -> Picture:
        """Return how all stands, or one database; an error only if none ever came."""
        if database is not None and self.settings.limits:
            self.known(database)
        picture = self.looking.look()
        if self.looking.failure is not None and not self.looking.answered:
            raise self.looking.failure
        return picture.only(database) if database else picture

    def known(self, database: str) -> str:
        """Return the name if it has a limit; a misspelt one would show nothing."""
        if database not in self.settings.limits:
            allowed = ", ".join(sorted(self.settings.limits)) or UNSET
            message = f"{database!r} has no limit in throttle_limits; known: {allowed}"
            raise click.BadParameter(message)
        return database

    def told(self, found: object) -> bool:
        """Print the finding if JSON was asked for; whether it was."""
        if self.json:
            click.echo(jsons.dumps(plain(found), indent=2, ensure_ascii=False))
        return self.json

    @staticmethod
    def leave(code: int) -> NoReturn:
        """End with an exit code."""
        raise click.exceptions.Exit(code)


def plain(found: object) -> Any:
    """Return something as JSON can say it."""
    if is_dataclass(found) and not isinstance(found, type):
        return plain(asdict(found))
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        return plain(found._asdict())
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    return str(found)
