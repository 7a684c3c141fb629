"""What a replica makes of stored schedules: entries, and their messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery import Celery

from celery_pecker.brokers.publisher import Publisher
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.user_code import Exited, no_exit
from celery_pecker.schedules.declarations.beat_schedule import PeckerEntry
from celery_pecker.schedules.engine.model import Entry, StoredSchedule
from celery_pecker.schedules.stored.checks import check_running
from celery_pecker.schedules.stored.timings import Timings

if TYPE_CHECKING:
    from celery_pecker.schedules.local.runner import LocalRunner


@dataclass
class Definitions:
    """Reads rows for one replica; not for several threads."""

    app: Celery
    destination: "Publisher | LocalRunner"
    note_other_definitions: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._timings = Timings(self.app)

    def entry(self, row: StoredSchedule) -> Entry:
        """Return the entry; raise whatever is wrong with the row."""
        try:
            return self._timings.of_row(row)
        except SystemExit as error:
            raise Exited(f"stored schedule {row.name!r} raised {error!r}") from error

    def build(self, row: StoredSchedule) -> None:
        """Build the message; raise BrokerUnavailable, or what is wrong with the row."""
        where = f"stored schedule {row.name!r}"
        for key, kind, allowed in (
            ("args", list, "a list"),
            ("kwargs", dict, "an object"),
        ):
            value = getattr(row, key)
            if not isinstance(value, kind):
                Misconfigured.refuse(f"{where}: {key}", value, f"is {allowed}")
        check_running(row.options, self._timings.allow_list)
        with no_exit(where):
            entry = PeckerEntry(
                name=row.name,
                task=row.task,
                schedule=1.0,  # never read: the agenda has its due instants
                args=tuple(row.args),
                kwargs=row.kwargs,
                options=row.options,
                app=self.app,
            )
            wrong = self.destination.prepare(entry)
        if wrong is not None:
            raise Misconfigured(f"{where}: its message cannot be built: {wrong}")

    def forget(self, name: str) -> None:
        """Forget the message."""
        self.destination.forget(name)
