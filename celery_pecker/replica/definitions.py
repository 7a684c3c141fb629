"""What a stored schedule means to a replica: its entry, and its message."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery

from celery_pecker.declarations import PeckerEntry
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.user_code import Exited, no_exit
from celery_pecker.replica.dispatching import Destination
from celery_pecker.schedules.model import Entry, Message, StoredSchedule
from celery_pecker.stored_schedules.options import check_running
from celery_pecker.stored_schedules.timings import Timings


class Definitions:
    """Reads rows for one replica; not for several threads."""

    def __init__(
        self,
        app: Celery,
        destination: Destination,
        note_other_definitions: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self.note_other_definitions = note_other_definitions
        self._destination = destination
        self._timings = Timings(app)

    def entry(self, row: StoredSchedule) -> Entry:
        """Return the entry; raise whatever is wrong with the row."""
        try:
            return self._timings.of_row(row)
        except SystemExit as error:
            message = f"stored schedule {row.name!r} raised {error!r}"
            raise Exited(message) from error

    def build(self, message: Message) -> None:
        """Build the message; raise BrokerUnavailable, or what is wrong with the row."""
        where = f"stored schedule {message.name!r}"
        for key, kind, allowed in (
            ("args", list, "a list"),
            ("kwargs", dict, "an object"),
        ):
            value = getattr(message, key)
            if not isinstance(value, kind):
                text = f"{where}: {key} is {value!r}; allowed is {allowed}"
                raise Misconfigured(text)
        check_running(message.options, self._timings.allow_list)
        with no_exit(where):
            entry = PeckerEntry(
                name=message.name,
                task=message.task,
                schedule=1.0,  # never read: the agenda has its due instants
                args=tuple(message.args),
                kwargs=message.kwargs,
                options=message.options,
                app=self._app,
            )
            wrong = self._destination.prepare(entry)
        if wrong is not None:
            text = f"{where}: its message cannot be built: {wrong}"
            raise Misconfigured(text)

    def forget(self, name: str) -> None:
        """Forget the message."""
        self._destination.forget(name)
