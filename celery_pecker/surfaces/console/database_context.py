"""What every command over tables of PostgreSQL works with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import Any, ClassVar, TypeVar

from celery import Celery

from celery_pecker.kernel.audit import current_user, recorded
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    PeckerError,
)
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.sql import OURS
from celery_pecker.surfaces.console.context import CommandContext

Command = TypeVar("Command", bound=Callable[..., None])


class DatabaseContext(CommandContext):
    """One call of one command; each package adds what it reads the tables by."""

    no_answer = (DatabaseUnavailable, BrokerUnavailable)
    failures = (PeckerError,)
    package: ClassVar[str] = OURS
    """Whose statements are run."""

    @classmethod
    def read_settings(cls, app: Celery) -> Settings:
        """Return the settings of the tables."""
        return Settings.read(app.conf, main=app.main)

    @cached_property
    def database(self) -> Database:
        """The tables, over a connection that is made when first needed."""
        return Database.of(self.settings, role="cli", package=self.package)

    @contextmanager
    def recorded(self, act: str, subject: str) -> Iterator[None]:
        """Record what a command does; refuse it in the schema of another app.

        Args:
            act: the view's name, and the act's.
            subject: what it is done to.

        """
        by = current_user()
        with recorded(self.settings, act, subject, by=by, surface="command"):
            yield

    def close(self) -> None:
        """Close the connection, if it was needed."""
        if "database" in vars(self):
            self.database.close()


def acting(act: str, *names: str) -> Callable[[Command], Command]:
    """Decorate what a command does in an open context: it is recorded.

    Args:
        act: the view's name, and the act's.
        names: options that say what it is done to; none: its name.

    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(context: DatabaseContext, /, **options: Any) -> None:
            told = [str(options[name]) for name in names or ("name",) if options[name]]
            with context.recorded(act, ", ".join(told)):
                command(context, **options)

        return call  # type: ignore[return-value]  # it takes what the command does

    return decorate
