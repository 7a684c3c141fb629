"""The tables, read for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.schedules.history.outcomes import COLUMNS
from celery_pecker.schedules.overview.model import (
    EntryDetail,
    NoRoom,
    NotDeclared,
    Outcomes,
    Page,
    PendingRow,
    ReplicaRow,
    SlotRow,
    Totals,
    UnknownEntry,
)
from celery_pecker.schedules.overview.rows import bad_end_of, entry_of, fence_of
from celery_pecker.schedules.overview.slots import slots

ORDERS = ("name", "task", "last", "late", "missed", "state")
MOST = 1_000
"""Rows of a page, at most."""
SHOWN = 40
"""Slots in a sparkline, at most."""
OVERDUE_TIMEOUT = 5.0
"""Seconds by which a slot must be late before its entry counts as overdue: as long as
a replica may take from one look at what it does not know to the next."""
SEEN = 20.0
"""Seconds after which a replica that announced itself every five is no longer there."""


class Overview:
    """What the tables say, over one connection: of one thread at a time."""

    def __init__(
        self,
        database: Database,
        *,
        now: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._database = database
        self._now = now
        """None in production: the database reads its own clock. Tests say when."""

    def close(self) -> None:
        """Drop the connection."""
        self._database.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._database.abandon()

    def page(
        self,
        *,
        search: str = "",
        order: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        overdue_after: float = OVERDUE_TIMEOUT,
    ) -> Page:
        """Return some entries: those whose name or task contains ``search``."""
        if order not in ORDERS:
            message = f"order is {order!r}; allowed are {', '.join(ORDERS)}"
            raise ValueError(message)
        rows = self._database.run(
            "list_entries",
            now=self._now(),
            search=search.replace("\0", ""),
            order=order,
            descending=descending,
            limit=min(max(limit, 0), MOST),
            offset=min(max(offset, 0), 2**31),
            overdue_after=overdue_after,
            shown=SHOWN,
            term=SEEN,
        )
        now_us, total = rows[0][:2]
        ended = self.outcomes([row[2] for row in rows if row[2] is not None])
        listed = [
            entry_of(row[2:], now_us, overdue_after, ended)
            for row in rows
            if row[2] is not None
        ]
        return Page(total=total, rows=listed, now_us=now_us)

    def entry(self, name: str, *, limit: int = 600) -> EntryDetail | None:
        """Return an entry and its last slots; None if no entry has that name."""
        if not _storable(name):
            return None
        rows = self._database.run("read_entry", name=name, now=self._now(), term=SEEN)
        if not rows:
            return None
        now_us, until_us, seen_us = rows[0][0], rows[0][17], rows[0][18]
        slots = self._slots(name, limit)
        late = [slot.late_us for slot in slots if slot.late_us is not None][:SHOWN]
        return EntryDetail(
            row=entry_of(
                (*rows[0][1:17], late[::-1]),
                now_us,
                OVERDUE_TIMEOUT,
                self.outcomes([name]),
            ),
            now_us=now_us,
            declared_until_us=until_us,
            holder_seen_us=seen_us,
            slots=slots,
            fence=fence_of(rows[0][19:]),
            pending=[
                PendingRow(*row)
                for row in self._database.run("read_pending", name=name)
            ],
        )

    def _slots(self, name: str, limit: int) -> list[SlotRow]:
        """Return the last slots of an entry.

        Two processes or so report of a slot, and a page that was closed early (a
        replica ended, a worker reported once) holds fewer than 60.
        """
        rows = self._database.run("read_reports", name=name, limit=limit // 10 + 20)
        hosts = {row[1]: row[2] for row in rows if row[2] is not None}
        return slots([(row[0], row[1], *row[3:]) for row in rows], hosts, limit)

    def outcomes(self, names: Sequence[str]) -> dict[str, Outcomes]:
        """Return how the runs of entries ended; only of those that have a report."""
        rows = self._database.run("read_outcomes", now=self._now(), names=[*names])
        return {
            name: Outcomes(
                failing=failing,
                undelivered=undelivered,
                unreported_us=unreported_us,
                counts=dict(zip(COLUMNS, counts, strict=True)),
                bad=bad_end_of(bad),
            )
            for name, failing, undelivered, unreported_us, counts, *bad in rows
        }

    def failing(self, limit: int = 10) -> dict[str, Outcomes]:
        """Return some that fail or are unreported, those that are not sent first."""
        rows = self._database.run("list_failing", now=self._now(), limit=limit)
        outcomes = self.outcomes([name for (name,) in rows])
        return {name: outcomes[name] for (name,) in rows if name in outcomes}

    def replicas(self) -> list[ReplicaRow]:
        """Return every process life seen within a day, the last seen first."""
        rows = self._database.run("list_replicas", now=self._now(), term=SEEN)
        return [ReplicaRow(*row) for row in rows]

    def totals(self, *, overdue_after: float = OVERDUE_TIMEOUT) -> Totals:
        """Return the figures of all entries at once."""
        [(*figures, counts)] = self._database.run(
            "count_entries", now=self._now(), overdue_after=overdue_after, term=SEEN
        )
        counted = zip(COLUMNS, counts, strict=True)
        figures.append({column: count or 0 for column, count in counted})
        return Totals(*figures)

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Let the slots of an entry pass, from its next one on."""
        self._set_paused(name, by, paused=True)

    def resume(self, name: str, *, by: str | None = None) -> None:
        """Let the slots of an entry run again, from its next one on."""
        self._set_paused(name, by, paused=False)

    def _set_paused(self, name: str, by: str | None, *, paused: bool) -> None:
        rows: Sequence[tuple[Any, ...]] = ()
        if _storable(name):
            rows = self._behind_edits(name, "pause_entry", paused=paused, by=by)
        if not rows:
            raise _unknown(name)

    def _behind_edits(
        self, name: str, label: str, **params: object
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement once no edit holds the entry: a renamed entry is gone.

        What is read in one statement is as it was before the edit that it waits for.
        """
        with self._database.transaction():
            self._database.run("lock_entries", names=[name])
            return self._database.run(label, name=name, now=self._now(), **params)

    def request_run(self, name: str, by: str) -> int:
        """Ask for a run now; return its slot.

        Asked again while one waits to be taken, it is the one that waits.
        """
        if not _storable(name):
            raise _unknown(name)
        rows = self._behind_edits(
            name, "insert_requested_run", by=by.replace("\0", "")[:200]
        )
        if rows:
            due_us: int = rows[0][0]
            return due_us
        detail = self.entry(name, limit=0)
        if detail is None:
            raise _unknown(name)
        if detail.row.declared:
            message = (
                f"a run of entry {name!r} beside its slots has no room: its timeout is"
                " as long as its period; wait for its next slot, or shorten the timeout"
            )
            raise NoRoom(message)
        message = (
            f"no living replica's code declares entry {name!r}: it would not run;"
            " start a scheduler with the code that declares it"
        )
        raise NotDeclared(message)


def _unknown(name: str) -> UnknownEntry:
    return UnknownEntry(f"no entry is named {name!r} in the tables")


def _storable(name: str) -> bool:
    """Return whether PostgreSQL could be asked for the name at all."""
    return "\0" not in name and name == name.encode(errors="ignore").decode()
