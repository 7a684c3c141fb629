"""What every command works at: settings, reader, one way to print and one to fail."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import tzinfo
from functools import cached_property
from typing import Any, NoReturn, Self

import click
from celery import Celery
from rich.console import Console

from celery_pecker.clock import from_us
from celery_pecker.console import documents, exits, instants
from celery_pecker.console.exits import NO, UNKNOWN, YES, Untold
from celery_pecker.database import Database
from celery_pecker.declarations import Book, entries
from celery_pecker.errors import BrokerUnavailable, DatabaseUnavailable, PeckerError
from celery_pecker.overview import Overview
from celery_pecker.schedules.model import Entry
from celery_pecker.settings import Settings

__all__ = ["NO", "UNKNOWN", "YES", "Desk", "Untold", "as_json", "instant", "plain"]

NONE = "-"

as_json = click.option("--json", is_flag=True, help="For programs: JSON, one document.")


@dataclass(kw_only=True)
class Desk:
    """One call of one command."""

    app: Celery
    settings: Settings
    json: bool

    @classmethod
    @contextmanager
    def open(cls, ctx: click.Context, *, json: bool = False) -> Iterator[Self]:
        """Give the desk; what goes wrong at it is one line and an exit code."""
        app: Celery = ctx.obj.app
        desk = None
        try:
            desk = cls(
                app=app, settings=Settings.read(app.conf, main=app.main), json=json
            )
            yield desk
        except (DatabaseUnavailable, BrokerUnavailable) as error:
            raise Untold(str(error)) from error
        except PeckerError as error:
            raise click.ClickException(str(error)) from error
        finally:
            if desk is not None:
                desk.database.close()

    @cached_property
    def console(self) -> Console:
        """Where people read."""
        return Console(highlight=False, soft_wrap=True)

    @cached_property
    def database(self) -> Database:
        """The tables, over a connection that is made when first needed."""
        return Database.of(self.settings, role="cli")

    @cached_property
    def overview(self) -> Overview:
        """The reader of the tables."""
        return Overview(self.database)

    @cached_property
    def declared(self) -> dict[str, Entry]:
        """What the code of this app declares, as its schedulers read it."""
        self.app.loader.import_default_modules()
        self.app.finalize()
        book = Book(self.app)
        return {
            entry.name: entry
            for entry in entries(book.schedule, self.app, conf=self.app.conf)
        }

    @property
    def zone(self) -> tzinfo:
        """The time zone of the app, in which people read instants."""
        zone: tzinfo = self.app.timezone
        return zone

    def at(self, instant_us: int | None) -> str:
        """Return an instant for people: to the millisecond, in the app's time zone."""
        if instant_us is None:
            return NONE
        return instants.for_people(from_us(instant_us), self.zone)

    def told(self, found: object) -> bool:
        """Print the finding if JSON was asked for; whether it was."""
        if self.json:
            click.echo(jsons.dumps(plain(found), indent=2, ensure_ascii=False))
        return self.json

    def print(self, marked: str, *plainly: str) -> None:
        """Print a text with marks, then texts that may look like marks and are none."""
        self.console.print(marked, end="")
        for text in plainly:
            self.console.print(text, end="", markup=False)
        self.console.print()

    @staticmethod
    def leave(code: int) -> NoReturn:
        """End with an exit code."""
        exits.leave(code)


def plain(found: object) -> Any:
    """Return something as JSON can say it; an instant ``x_us`` gets its ``x``."""
    if is_dataclass(found) and not isinstance(found, type):
        return plain(asdict(found))
    if isinstance(found, Mapping):
        return {
            **{str(key): plain(value) for key, value in found.items()},
            **{
                key.removesuffix("_us"): instant(value)
                for key, value in found.items()
                if key in INSTANTS
            },
        }
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    return documents.plain(found)


INSTANTS = {
    "at_us",
    "claimed_us",
    "declared_until_us",
    "due_us",
    "holder_seen_us",
    "last_us",
    "next_us",
    "now_us",
    "seen_us",
    "started_us",
}
"""Fields that are instants; the other ``_us`` are lengths of time."""


def instant(us: int | None) -> str | None:
    """Return an instant as programs get it."""
    return None if us is None else instants.for_programs(from_us(us))


UNITS = (
    (1_000, 1, "us", 0),
    (1_000_000, 1_000, "ms", 1),
    (120_000_000, 1_000_000, "s", 1),
    (7_200_000_000, 60_000_000, "min", 0),
    (172_800_000_000, 3_600_000_000, "h", 1),
)
"""Below how many microseconds, the unit, its name, and the decimals shown."""


def seconds(us: int | None) -> str:
    """Return a length of time for people."""
    if us is None:
        return NONE
    for below, unit, name, decimals in UNITS:
        if abs(us) < below:
            return f"{us / unit:.{decimals}f} {name}"
    return f"{us / 86_400_000_000:.1f} days"
