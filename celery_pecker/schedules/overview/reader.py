"""The tables, read for people.

Rows of the tables as what people see. Pure.

Reports of processes, put together into slots. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import UnknownSchedule
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.sql import render
from celery_pecker.schedules.history.merge import merge
from celery_pecker.schedules.history.outcomes import COLUMNS
from celery_pecker.schedules.history.report import Report, SlotReport
from celery_pecker.schedules.overview.model import (
    NOTHING_YET,
    BadEnd,
    EntryDetail,
    EntryOutcomes,
    EntryPage,
    EntryRow,
    Fence,
    LockingSession,
    NoRoom,
    NotDeclared,
    PendingRow,
    ReplicaRow,
    SlotRow,
    Totals,
)

_KNOWN = {int(report): report for report in Report}


def named(number: int) -> str:
    """Return the word of a report; of a version to come, its number."""
    report = _KNOWN.get(number)
    return f"report {number}" if report is None else report.name.lower()


def slots(rows: Sequence[Any], limit: int | None = None) -> list[SlotRow]:
    """Return one row for each slot that was reported of, newest first."""
    hosts = {row.holder: row.host for row in rows if row.host is not None}
    records = merge(_reports(rows))
    return [
        SlotRow(
            due_us=due_us,
            era=era,
            epoch=record.top.epoch,
            late_us=record.late_us,
            state=record.state.name.lower(),
            at_us=record.top.at_us,
            holder=record.top.holder,
            host=hosts.get(record.top.holder),
        )
        for (era, due_us), record in sorted(records.items(), reverse=True)[:limit]
    ]


def _reports(rows: Iterable[Any]) -> Iterator[SlotReport]:
    for row in rows:
        for due_us, epoch, at_us, number in zip(
            row.due_us, row.epoch, row.at_us, row.report, strict=False
        ):
            report = _KNOWN.get(number)
            if report is not None:  # else of a version to come
                yield SlotReport(
                    due_us=due_us,
                    era=row.era,
                    epoch=epoch,
                    at_us=at_us,
                    report=report,
                    holder=row.holder,
                )


STATES = (
    *("overdue", "unclaimed", "failing", "unreported"),
    *("undeclared", "paused", "new", "ok"),
)
"""What needs a look comes first."""


def state(*, declared: bool, paused: bool, new: bool, **signs: bool) -> str:
    """Return the one word for an entry.

    An undeclared entry cannot be overdue; a pause is a user's decision, so it is
    shown before what it may hide. ``signs``: which of the others it shows.
    """
    if not declared:
        return "undeclared"
    if paused:
        return "paused"
    shown = (one for one in STATES if signs.get(one))
    return next(shown, "new" if new else "ok")


SAME = (
    *("name", "period_us", "timeout_us", "last_us", "holder", "host", "epoch", "era"),
    *("missed", "paused", "declared"),
)
"""Columns of an entry that people see as they are."""


def entry_of(
    row: Any, now_us: int, overdue_after: float, ended: Mapping[str, EntryOutcomes]
) -> EntryRow:
    """Return an entry as the tables have it, with how its runs ended."""
    period_us, last_us, spark = row.period_us, row.last_us, row.spark or []
    next_us = None if period_us is None else last_us + period_us
    overdue_us = 0
    if row.declared and next_us is not None:
        overdue_us = max(now_us - next_us, 0)
    outcomes = ended.get(row.name, NOTHING_YET)
    return EntryRow(
        **{column: getattr(row, column) for column in SAME},
        task=row.task or "",
        schedule=row.schedule or "",
        run=row.run or "",
        delivery=row.delivery or "",
        next_us=next_us,
        late_us=spark[-1] if spark else None,
        overdue_us=overdue_us,
        state=state(
            declared=row.declared,
            paused=row.paused,
            overdue=overdue_us > overdue_after * SECOND,
            new=not row.epoch,
            unclaimed=not row.claimed,
            failing=outcomes.failing,
            unreported=outcomes.unreported_us is not None,
        ),
        spark=spark,
        outcomes=outcomes,
    )


def outcomes_of(
    *, name: str, counts: Sequence[int], report: int | None, **columns: Any
) -> tuple[str, EntryOutcomes]:
    """Return how the runs of an entry ended, with its name."""
    bad = {key: columns.pop(key) for key in ("due_us", "era", "at_us", "host")}
    error = columns.pop("error") or ""
    return name, EntryOutcomes(
        counts=dict(zip(COLUMNS, counts, strict=True)),
        bad=None if report is None else BadEnd(state=named(report), error=error, **bad),
        **columns,
    )


def totals_of(*, counts: Sequence[int | None], **figures: Any) -> Totals:
    """Return the figures of all entries."""
    counted = zip(COLUMNS, counts, strict=True)
    return Totals(counts={key: number or 0 for key, number in counted}, **figures)


def fence_of(row: Any) -> Fence | None:
    """Return the last start of a run; None if none was reported."""
    if row.fence_epoch is None:
        return None
    return Fence(*(getattr(row, f"fence_{one.name}") for one in fields(Fence)))


ORDERS = ("name", "task", "last", "late", "missed", "state")
MOST = 1_000
"""Rows of a page, at most."""
SHOWN = 40
"""Slots in a sparkline, at most."""
OVERDUE_TIMEOUT = 5.0
"""Seconds by which a slot must be late before its entry counts as overdue: as long as
a replica may take from one look at what it does not know to the next."""
EVERY_ENTRY: Mapping[str, None] = dict.fromkeys(("search", "state", "task"))
SEEN = 20.0
"""Seconds after which a replica that announced itself every five is no longer there."""


@dataclass(eq=False, repr=False)
class Overview:
    """What the tables say, over one connection: of one thread at a time."""

    database: Database

    def close(self) -> None:
        """Drop the connection."""
        self.database.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self.database.abandon()

    def page(
        self,
        *,
        order: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        **which: str | None,
    ) -> EntryPage:
        """Return some entries.

        ``which``: what their name or task contains (`search`), their `state`, `task`.
        """
        if order not in ORDERS:
            raise ValueError(f"order is {order!r}; allowed are {', '.join(ORDERS)}")
        rows = self.database.read(
            SimpleNamespace,
            "list_entries",
            **{**EVERY_ENTRY, **which},
            order=order,
            descending=descending,
            limit=min(max(limit, 0), MOST),
            offset=min(max(offset, 0), 2**31),
            overdue_after=OVERDUE_TIMEOUT,
            states=[*STATES],
            shown=SHOWN,
            term=SEEN,
        )
        now_us, found = rows[0].now_us, [row for row in rows if row.name is not None]
        ended = self.outcomes([row.name for row in found])
        listed = [entry_of(row, now_us, OVERDUE_TIMEOUT, ended) for row in found]
        return EntryPage(total=rows[0].entries, rows=listed, now_us=now_us)

    def entry(self, name: str, *, limit: int = 600) -> EntryDetail | None:
        """Return an entry and its last slots; None if no entry has that name."""
        if not _storable(name):
            return None
        rows = self.database.read(SimpleNamespace, "read_entry", name=name, term=SEEN)
        if not rows:
            return None
        row, now_us = rows[0], rows[0].now_us
        slots = self._slots(name, limit)
        late = [slot.late_us for slot in slots if slot.late_us is not None][:SHOWN]
        row.spark = late[::-1]
        return EntryDetail(
            row=entry_of(row, now_us, OVERDUE_TIMEOUT, self.outcomes([name])),
            now_us=now_us,
            declared_until_us=row.until_us,
            holder_seen_us=row.seen_us,
            slots=slots,
            fence=fence_of(row),
            pending=[*self.database.read(PendingRow, "read_pending", name=name)],
        )

    def _slots(self, name: str, limit: int) -> list[SlotRow]:
        """Return the last slots of an entry.

        Two processes or so report of a slot, and a page that was closed early (a
        replica ended, a worker reported once) holds fewer than 60.
        """
        most = limit // 10 + 20
        rows = self.database.read(
            SimpleNamespace, "read_reports", name=name, limit=most
        )
        return slots(rows, limit)

    def slots_of_task(self, task: str) -> Iterator[tuple[str, list[SlotRow]]]:
        """Yield entries that send a task, with their last slots, the latest first."""
        rows = self.database.read(SimpleNamespace, "read_reports_of_task", task=task)
        by_name: dict[str, list[Any]] = {}
        for row in rows:
            by_name.setdefault(row.name, []).append(row)
        for name, reports in by_name.items():
            yield name, slots(reports)

    def outcomes(self, names: Sequence[str]) -> dict[str, EntryOutcomes]:
        """Return how the runs of entries ended; only of those that have a report."""
        return dict(self.database.read(outcomes_of, "read_outcomes", names=[*names]))

    def failing(self, limit: int = 10) -> dict[str, EntryOutcomes]:
        """Return some that fail or are unreported, those that are not sent first."""
        names = self.database.column("list_failing", limit=limit)
        outcomes = self.outcomes(names)
        return {name: outcomes[name] for name in names if name in outcomes}

    def replicas(self) -> list[ReplicaRow]:
        """Return every process life seen within a day, the last seen first."""
        return [*self.database.read(ReplicaRow, "list_replicas", term=SEEN)]

    def locks(
        self, table: str = "pecker_tasks", locker: str | None = None
    ) -> Sequence[LockingSession]:
        """Return the sessions of others that keep claims from rows of a table.

        Args:
            table: which; to that of entries no transaction but ours should write.
            locker: the transaction that has locked a row of another table.
        """
        harmless = ["AccessShareLock"]
        if locker is not None:
            harmless += ["RowShareLock", "RowExclusiveLock"]
        return self.database.read(
            LockingSession,
            "examine_locks",
            tasks=render(f"{{schema}}.{table}", self.database.schema),
            harmless=harmless,
            locker=locker,
        )

    def totals(self, *, overdue_after: float = OVERDUE_TIMEOUT) -> Totals:
        """Return the figures of all entries at once."""
        [totals] = self.database.read(
            totals_of,
            "count_entries",
            overdue_after=overdue_after,
            term=SEEN,
        )
        return totals

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
            raise UnknownSchedule(name)

    def _behind_edits(
        self, name: str, label: str, **params: object
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement once no edit holds the entry: a renamed entry is gone.

        What is read in one statement is as it was before the edit that it waits for.
        """
        with self.database.transaction():
            self.database.run("lock_entries", names=[name])
            return self.database.run(label, name=name, **params)

    def request_run(self, name: str, by: str) -> int:
        """Ask for a run now; return its slot.

        Asked again while one waits to be taken, it is the one that waits.
        """
        if not _storable(name):
            raise UnknownSchedule(name)
        rows = self._behind_edits(
            name, "insert_requested_run", by=by.replace("\0", "")[:200]
        )
        if rows:
            due_us: int = rows[0][0]
            return due_us
        detail = self.entry(name, limit=0)
        if detail is None:
            raise UnknownSchedule(name)
        if detail.row.declared:
            raise NoRoom(
                f"a run of entry {name!r} beside its slots has no room: its timeout is"
                " as long as its period; wait for its next slot, or shorten the timeout"
            )
        raise NotDeclared(
            f"no living replica's code declares entry {name!r}: it would not run;"
            " start a scheduler with the code that declares it"
        )


def _storable(name: str) -> bool:
    """Return whether PostgreSQL could be asked for the name at all."""
    return "\0" not in name and name == name.encode(errors="ignore").decode()
