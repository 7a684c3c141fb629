"""The runs that one process life has in hand, renewed while it lives.

A killed process reports nothing, so a process that has reported a run as running
renews a row that names it, until the run has ended. Schedulers sweep rows that are no
longer renewed: their runs are lost. A process that was frozen, or cut off from the
database, finds its row gone when it comes back, and reports its runs anew.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime

from celery_pecker.kernel.database import Database
from celery_pecker.schedules.history.outcomes import BEGUN
from celery_pecker.schedules.history.report import Report

RENEWAL = 10.0
"""Seconds between two renewals of an unchanged row."""
LISTED = 1_000
"""Runs of a row, at most: what is more is not known as lost."""

LEFT = 0
"""In place of a report: the run continues elsewhere, or its process is not known."""
ENDED = frozenset({LEFT, Report.SUCCEEDED, Report.FAILED, Report.OVERRUN, Report.LOST})

Key = tuple[str, int, int]
"""Entry, era, slot in microseconds."""


class Life:
    """The row of one process life. Of one thread at a time."""

    def __init__(self, holder: uuid.UUID, host: str | None) -> None:
        self._holder = holder
        self._host = host
        self._runs: dict[Key, int] = {}
        """Epochs of the runs in hand."""
        self._written: dict[Key, int] = {}
        """The table's row, as far as this process knows."""
        self._due = 0.0
        self._not_before = 0.0

    def note(self, name: str, era: int, due_us: int, epoch: int, report: int) -> None:
        """Take in a report of this process: which run it has in hand, or no more."""
        if report in BEGUN:
            if len(self._runs) < LISTED:
                self._runs[name, era, due_us] = epoch
        elif report in ENDED:
            self._runs.pop((name, era, due_us), None)

    def rest(self, now: float) -> float:
        """Return the seconds until the row is to be renewed."""
        due = max(self._due, self._not_before)
        return max(due - now, 0.0) if self._runs else float("inf")

    def put_off(self, now: float) -> None:
        """Ask nothing of the table until the usual time is over: it refuses."""
        self._not_before = now + RENEWAL

    def renew(self, database: Database, now: float) -> tuple[int, dict[Key, int]]:
        """Write the row where it is due, or has changed by now.

        Return the database's time and the runs that a sweep has called lost although
        they go on.
        """
        runs = self._runs
        now_us = 0
        falsely_lost: dict[Key, int] = {}
        if now < self._not_before:
            return now_us, falsely_lost
        if runs == self._written and (not runs or now < self._due):
            return now_us, falsely_lost
        row = {"holder": self._holder, "epochs": [*runs.values()], **_columns(runs)}
        if not runs:
            database.change("end_life", holder=self._holder)
        elif not database.change("renew_life", **row):
            if self._written:
                falsely_lost = {key: runs[key] for key in self._written if key in runs}
                lost = _columns(falsely_lost)
                [(now_us,)] = database.run("correct_lost_runs", **lost)
            database.change("begin_life", host=self._host, **row)
        self._written, self._due = dict(runs), now + RENEWAL
        return now_us, falsely_lost


def _columns(runs: dict[Key, int]) -> dict[str, object]:
    return {
        "names": [name for name, _, _ in runs],
        "eras": [era for _, era, _ in runs],
        "dues": [due_us for _, _, due_us in runs],
    }


LOOK_INTERVAL = 15.0
"""Seconds between two looks."""
LONGEST_GAP = 2 * LOOK_INTERVAL
"""Seconds between two looks after which nothing is known any more."""
SILENT = 60.0
"""Seconds for which a row must be seen unchanged: six renewals."""

Seen = tuple[uuid.UUID, datetime]
"""A life, and when it was renewed last."""


class SilentProcesses:
    """Remembers rows that were not renewed, to find those silent for too long. Pure.

    Judged by how long this process has seen a row unchanged on its own monotonic clock,
    never by the row's age: a database that was away, or whose clock was stepped, makes
    all rows old at once. Polls must follow one another, because a process that was
    frozen, or had no database, has seen nothing in between.
    """

    def __init__(self) -> None:
        self._since: dict[Seen, float] = {}
        self._looked = float("-inf")

    def due(self, now: float) -> bool:
        """Return whether it is time for a look."""
        return now - self._looked >= LOOK_INTERVAL

    def update(self, now: float, seen: Iterable[Seen]) -> list[Seen]:
        """Take in a look; return the lives that have been silent for long enough."""
        known = self._since if now - self._looked < LONGEST_GAP else {}
        self._looked = now
        self._since = {one: known.get(one, now) for one in seen}
        return [one for one, since in self._since.items() if now - since >= SILENT]
