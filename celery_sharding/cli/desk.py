"""What every command works at: settings, ledger, one way to print and one to fail."""

from __future__ import annotations

import json as jsons
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any

import click
from rich.console import Console

from celery_pecker.cli import desk
from celery_pecker.cli.desk import NO, UNKNOWN
from celery_pecker.database import Database
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.here import PACKAGE

__all__ = ["NO", "UNKNOWN", "Desk", "as_json", "of_job", "plain"]

as_json = click.option("--json", is_flag=True, help="For programs: JSON.")
of_job = click.argument("task_id", metavar="ID")


class Desk(desk.Desk):
    """One call of one command: the kernel's desk, with the ledger of jobs on it."""

    @cached_property
    def console(self) -> Console:
        """Where people read; a pipe gets whole lines."""
        console = Console(highlight=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = 10_000
        return console

    @cached_property
    def database(self) -> Database:
        """The tables, by the statements of jobs."""
        return Database.of(self.settings, role="cli", package=PACKAGE)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, over a connection that is made when first needed."""
        return Ledger(self.database)

    def when(self, instant: datetime | None) -> str:
        """Return an instant for people: to the second, in the app's time zone."""
        if instant is None:
            return "-"
        return f"{instant.astimezone(self.app.timezone):%Y-%m-%d %H:%M:%S}"

    def told(self, found: object) -> bool:
        """Print the finding if JSON was asked for; whether it was."""
        if self.json:
            click.echo(jsons.dumps(plain(found), indent=2, ensure_ascii=False))
        return self.json

    def line(self, found: object) -> None:
        """Print the finding as one line of JSON."""
        click.echo(jsons.dumps(plain(found), ensure_ascii=False))


def plain(found: object) -> Any:
    """Return something as JSON can say it: instants in ISO 8601, lengths in seconds."""
    if is_dataclass(found) and not isinstance(found, type):
        return plain(asdict(found))
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        return plain(found._asdict())
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    return _single(found)


def _single(found: object) -> Any:
    if isinstance(found, Enum):
        return found.value
    if isinstance(found, datetime):
        return found.isoformat()
    if isinstance(found, timedelta):
        return found.total_seconds()
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    return str(found)
