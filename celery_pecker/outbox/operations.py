"""Change many rows of an outbox by hand, and how hard it works.

After a long outage due times may need moving; a batch that failed is tried again, or
dropped. Rows are changed some thousand at a time, each time in a transaction of its
own: no other transaction waits for long, and an interrupted call may be repeated.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox.refusals import LONGEST_DELAY
from celery_pecker.outbox.runs.load import Load

AT_ONCE = 5_000
"""Rows of one statement."""
MAX_ATTEMPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which rows are meant: those for which all of it is true."""

    ids: Collection[int] | None = None
    tasks: Collection[str] | None = None
    """Names of their tasks."""
    parked: bool | None = None
    attempts_from: int = 0
    """With so many attempts or more."""
    until: datetime | None = None
    """Recorded by then, aware."""
    queue: str | None = None
    """Of this queue or exchange."""
    error: str | None = None
    """Part of the last error, whatever its case."""
    state: str | None = None
    """waiting, held, later or parked, as the overview says."""
    all_rows: bool = False
    """Named explicitly where nothing else is."""

    def __post_init__(self) -> None:
        """Refuse what would be all rows by an oversight."""
        narrow = (self.ids, self.tasks, self.parked, self.attempts_from or None)
        if not self.all_rows and all(one is None for one in narrow):
            raise Misconfigured(
                "no rows are named: give ids, tasks, parked or attempts_from"
            )

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a statement."""
        return {
            "ids": None if self.ids is None else [*self.ids],
            "tasks": None if self.tasks is None else [*self.tasks],
            "parked": self.parked,
            "attempts_from": self.attempts_from,
            "until": self.until,
            "queue": self.queue,
            "last_error": self.error,
            "state": self.state,
        }


def reschedule(
    database: Database,
    which: Which,
    *,
    at: datetime | None = None,
    delay: float | None = None,
    attempt: int | None = None,
    ended: bool = False,
) -> int:
    """Change when rows are due, or how many attempts they have had; return how many.

    Args:
        database: That of the outbox.
        which: The rows.
        at: The instant, aware.
        delay: Seconds from now on by the database's clock; 0: at once.
        attempt: So many attempts count from now on.
        ended: Runs of these rows have ended without a report: their holds
            are over too.

    Raises:
        Misconfigured: a value is not allowed, or none was given.

    """
    if at is None and delay is None and attempt is None and not ended:
        raise Misconfigured("nothing to change: give at, delay, attempt or ended")
    _check_due(at, delay)
    if attempt is not None and not 0 <= attempt <= MAX_ATTEMPT:
        Misconfigured.refuse("attempt", attempt, f"is 0 to {MAX_ATTEMPT}")
    return _change(
        database, which, due_at=at, delay=delay, attempt=attempt, ended=ended
    )


def retry(
    database: Database,
    which: Which,
    *,
    at: datetime | None = None,
    delay: float | None = None,
) -> int:
    """Run parked rows again, with all their attempts; return how many.

    Args:
        database: that of the outbox.
        which: the rows; of them those that are parked.
        at: when they are due, aware.
        delay: the seconds until then; neither: at once.

    Raises:
        Misconfigured: a value is not allowed.
    """
    _check_due(at, delay)
    if at is None and delay is None:
        delay = 0.0
    return _change(
        database,
        which,
        due_at=at,
        delay=delay,
        attempt=0,
        park=False,
        parked=True,
    )


def park(database: Database, which: Which, reason: str) -> int:
    """Park these rows: nothing runs them until they are retried. Return how many."""
    return _change(database, which, park=True, error=reason)


def drop(database: Database, which: Which) -> int:
    """Delete rows, whatever they are; return how many."""
    return _all(database, "drop_outbox", which.params)


def set_load(  # all of it is set
    database: Database,
    *,
    threads: int | None = None,
    pause_empty: float | None = None,
    pause_error: float | None = None,
    pause_done: float | None = None,
    only: Collection[str] | None = None,
) -> Load:
    """Set how hard the processing works; what is None is as by default from now on.

    Raises:
        Misconfigured: a value is not allowed; nothing was changed.
    """
    values: dict[str, Any] = {
        "threads": threads,
        "pause_empty": pause_empty,
        "pause_error": pause_error,
        "pause_done": pause_done,
        "only": None if only is None else [*only],
    }
    load = Load.of(**values)
    database.change("set_outbox_load", **values)
    return load


def _check_due(at: datetime | None, delay: float | None) -> None:
    if at is not None and delay is not None:
        raise Misconfigured("at and delay exclude each other")
    if at is not None and at.utcoffset() is None:
        Misconfigured.refuse("at", at, "is an instant with a time zone")
    if delay is not None and not 0 <= delay <= LONGEST_DELAY:
        Misconfigured.refuse("delay", delay, f"are seconds from 0 to {LONGEST_DELAY}")


def _change(database: Database, which: Which, **values: Any) -> int:
    nothing = dict.fromkeys(("due_at", "delay", "attempt", "park", "error"))
    params = {**nothing, "ended": False, **which.params, **values}
    return _all(database, "change_outbox", params)


def _all(database: Database, label: str, params: dict[str, Any]) -> int:
    count = 0
    above = -1
    while True:
        [(changed, last)] = database.run(label, **params, above=above, most=AT_ONCE)
        count += int(changed)
        if changed < AT_ONCE:
            return count
        above = last
