"""Celery's own scheduler as what it is good for: reading schedules.

It names entries, adds Celery's default ones, and its `apply_entry` is how the slow
lane sends. It never ticks.
"""

import logging
from collections.abc import Mapping
from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from celery_pecker.schedules.declarations.task_entries import (
    add_entries,
    refuse_duplicates,
)
from celery_pecker.schedules.declarations.validation import check_beat_schedule


class PeckerEntry(ScheduleEntry):
    """Celery's entry, which may carry policies of ours under ``pecker``."""

    def __init__(
        self, *args: Any, pecker: Mapping[str, object] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        options: dict[str, Any] = dict(self.options or {})
        policies = options.pop("pecker", None)
        self.options = options
        self.pecker: Mapping[str, object] | None = (
            pecker if policies is None else policies
        )


OWN = (
    "celery.beat:PersistentScheduler",
    "pecker",
    "celery_pecker.beat:PeckerScheduler",
)
"""What ``beat_scheduler`` is where no other scheduler stores schedules."""


def other_scheduler(app: Any) -> str | None:
    """Return the setting ``beat_scheduler`` where it names a scheduler of others.

    What that one stores is not run here: all of its jobs would stop without a word.
    """
    named = str(app.conf.beat_scheduler or OWN[0])
    return None if named in OWN else named


class _PerEntry(logging.Filter):
    """Keep Celery's line per sent entry for logs at level DEBUG.

    A thousand a second would flood the log (the slow lane is Celery's own code; the
    line per wake-up is ours).
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be seen."""
        per_entry = str(record.msg).startswith("Scheduler: Sending due task")
        return not per_entry or logging.getLogger(record.name).isEnabledFor(
            logging.DEBUG
        )


_PER_ENTRY = _PerEntry()


class BeatSchedule(Scheduler):
    """The entries of an app, checked, as Celery's beat would have them."""

    Entry = PeckerEntry

    def setup_schedule(self) -> None:
        """Read the app's entries; raise Misconfigured for what cannot be meant."""
        logging.getLogger("celery.beat").addFilter(_PER_ENTRY)
        add_entries(self.app)
        refuse_duplicates(self.app)
        check_beat_schedule(self.app.conf.beat_schedule)
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send nothing: a replica's loop does that."""
        return 1.0

    def should_sync(self) -> bool:
        """There is nothing to sync: the table is the memory."""
        return False

    def reserve(self, entry: ScheduleEntry) -> ScheduleEntry:  # type: ignore[override]  # the stubs name another class than Celery's code
        """Return the entry as it is: the claim has reserved its slot."""
        return entry
