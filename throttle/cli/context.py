"""What every command of throttle works with: settings, store, pictures."""

from datetime import UTC, datetime
from functools import cached_property

import click
from celery import Celery

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.surfaces.console.context import CommandContext
from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.console.exits import NO, UNKNOWN
from throttle.errors import StoreUnavailable, ThrottleError
from throttle.model import Store
from throttle.overview import Picture, Sampler, open_store
from throttle.settings import Settings
from throttle.store import UNSET

__all__ = ["NO", "UNKNOWN", "Context", "document", "of_database"]

of_database = click.option(
    "--database", default=None, metavar="NAME", help="This database alone."
)


class Context(CommandContext):
    """One call of one command."""

    no_answer = (StoreUnavailable,)
    failures = (ThrottleError, PeckerError)

    @classmethod
    def read_settings(cls, app: Celery) -> Settings:
        """Return the settings of the gate."""
        return Settings.read(app.conf)

    def close(self) -> None:
        """Close the store if it was opened."""
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def store(self) -> Store:
        """Return Redis, or the service before it; connect at the first use."""
        return open_store(self.settings)

    @cached_property
    def sampler(self) -> Sampler:
        """Yield pictures, one after the other."""
        return Sampler(self.store, self.settings)

    def picture(self, database: str | None = None) -> Picture:
        """Return how all stands, or one database; an error only if none ever came."""
        if database is not None and self.settings.limits:
            self.known(database)
        picture = self.sampler.sample()
        if self.sampler.failure is not None and not self.sampler.answered:
            raise self.sampler.failure
        return picture.only(database) if database else picture

    def known(self, database: str) -> str:
        """Return the name if it has a limit; a misspelt one would show nothing."""
        if database not in self.settings.limits:
            allowed = ", ".join(sorted(self.settings.limits)) or UNSET
            raise click.ClickException(
                f"{database!r} has no limit in throttle_limits; known: {allowed}"
            )
        return database


def document(picture: Picture) -> dict[str, object]:
    """Return a picture as JSON has it."""
    return {**plain(picture), "at": plain(datetime.fromtimestamp(picture.at, UTC))}
