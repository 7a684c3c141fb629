"""What every command works at: settings, store, one way to print and one to fail."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import NoReturn

import click
from celery import Celery
from rich.console import Console

from celery_pecker.console import exits
from celery_pecker.console.documents import plain
from celery_pecker.console.exits import NO, UNKNOWN, Untold
from throttle.errors import Away, ThrottleError
from throttle.overview import Looking, Picture, open_store
from throttle.settings import Settings
from throttle.store import CheckedStore
from throttle.store.opening import UNSET

__all__ = ["NO", "UNKNOWN", "Desk", "as_json", "document", "of_database"]

as_json = click.option("--json", is_flag=True, help="For programs: JSON.")
of_database = click.option(
    "--database", default=None, metavar="NAME", help="This database alone."
)


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
            raise click.ClickException(message)
        return database

    @property
    def zone(self) -> tzinfo:
        """The time zone of the app, in which people read instants."""
        zone: tzinfo = self.app.timezone
        return zone

    def told(self, found: object) -> bool:
        """Print the finding if JSON was asked for; whether it was."""
        if self.json:
            click.echo(jsons.dumps(plain(found), indent=2, ensure_ascii=False))
        return self.json

    @staticmethod
    def leave(code: int) -> NoReturn:
        """End with an exit code."""
        exits.leave(code)


def document(picture: Picture) -> dict[str, object]:
    """Return a picture as JSON has it."""
    return {**plain(picture), "at": plain(datetime.fromtimestamp(picture.at, UTC))}
