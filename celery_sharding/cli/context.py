"""What every command of sharding works with: settings, and the ledger of jobs."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

import click

from celery_pecker.surfaces.console.database_context import DatabaseContext, acting
from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.console.exits import NO, UNKNOWN
from celery_pecker.surfaces.console.instants import for_people
from celery_sharding.ledger import PACKAGE, Ledger

__all__ = ["NO", "UNKNOWN", "Context", "job_command", "of_job", "plain"]

of_job = click.argument("task_id", metavar="ID")


class Context(DatabaseContext):
    """One call of one command."""

    package = PACKAGE

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, over a connection that is made when first needed."""
        return Ledger(self.database)

    def tell(self, document: dict[str, object], words: str) -> None:
        """Print what was done, as JSON or for people."""
        if not self.print_json(document):
            click.echo(words)

    def when(self, instant: datetime | None) -> str:
        """Return an instant for people: to the second, in the app's time zone."""
        if instant is None:
            return "-"
        return for_people(instant, self.zone, timespec="seconds")


def job_command(act: Callable[..., None]) -> click.Command:
    """Make a command of what is done with a job in an open context."""
    recorded = acting(f"sharding {act.__name__}", "task_id")(act)
    return Context.command()(of_job(recorded))
