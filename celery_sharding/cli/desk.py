"""What every command works at: settings, ledger, one way to print and one to fail."""

from __future__ import annotations

import json as jsons
from datetime import datetime
from functools import cached_property

import click
from rich.console import Console

from celery_pecker.cli import desk
from celery_pecker.cli.desk import NO, UNKNOWN
from celery_pecker.console.documents import plain
from celery_pecker.console.instants import for_people
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
        return for_people(instant, self.zone, timespec="seconds")

    def told(self, found: object) -> bool:
        """Print the finding if JSON was asked for; whether it was."""
        if self.json:
            click.echo(jsons.dumps(plain(found), indent=2, ensure_ascii=False))
        return self.json

    def line(self, found: object) -> None:
        """Print the finding as one line of JSON."""
        click.echo(jsons.dumps(plain(found), ensure_ascii=False))
