"""What is asked of the tables, by the names of the statements."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

from celery_pecker.kernel.clock import from_us, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.model import (
    ClaimedSlot,
    ClaimRequest,
    Delivery,
    Entry,
    Orphan,
    RequestedRun,
    Row,
    StoredSchedule,
)
from celery_pecker.schedules.history.life import Seen

CHUNK = 1_000
"""A claim takes at most so many rows, and its answer stays under 64 kB: a client that
freezes must not leave the server waiting, row locks in hand, to finish sending (I9)."""


@dataclass(frozen=True, slots=True)
class DefinitionPage:
    """Stored schedules as one statement showed them; its columns, in order."""

    now_us: int
    snapshot: str
    """What the statement saw, as PostgreSQL writes it."""
    went_back: bool
    """Transactions have lower numbers than before: it is another server's state."""
    last: str | None
    """The name with which a full page of all ended; None: it was the last."""
    other_kind: bool
    """Whether it had rows of the other kind of replicas."""
    rows: list[StoredSchedule]

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> "DefinitionPage":
        """Read the rows of a statement's answer: each begins with the same five."""
        stored = [_stored(row) for row in rows if row[5] is not None]
        now_us, snapshot, went_back, last, other_kind = rows[0][:5]
        return cls(now_us, snapshot, went_back, last, other_kind, stored)


def _stored(row: tuple[Any, ...]) -> StoredSchedule:
    hot = None if row[18] is None else Row(*row[18:24])
    return StoredSchedule(*(*row[5:18], hot, *row[24:]))


@dataclass
class Repository:
    """The tables of schedules, for one holder."""

    database: Database
    holder: uuid.UUID
    _: KW_ONLY
    kind: str = "beat"
    keeps_reports: bool = True
    """Whether this app has a history at all."""

    @property
    def local(self) -> bool:
        """Whether it serves entries that run in the process that won them."""
        return self.kind == "local"

    def enroll(self, names: Sequence[str]) -> int:
        """Add rows for entries that have none; return how many were new."""
        return sum(
            self.database.change("enroll", names=[*names[start : start + CHUNK]])
            for start in range(0, len(names), CHUNK)
        )

    def claim(
        self,
        requests: Sequence[ClaimRequest],
        *,
        until_us: int,
    ) -> tuple[int | None, list[ClaimedSlot]]:
        """Take every slot that is due; return the database's time and the wins.

        Nothing is taken after ``until_us``. The time is None for a lost race.
        """
        rows = self.database.run(
            "claim_due",
            holder=self.holder,
            until=from_us(until_us),
            names=[one.entry.name for one in requests],
            periods=_column([one.entry.period_us for one in requests]),
            depths=_column([one.entry.policy.depth for one in requests], usual=1),
            instants=_column([_instant(one.instant_us) for one in requests]),
            seen=_column([_instant(one.seen_us) for one in requests]),
            passed=_column([one.passed for one in requests], usual=0),
            ahead=[one.ahead_us for one in requests],
            kept=_column(
                [
                    one.entry.policy.delivery is Delivery.AT_LEAST_ONCE
                    for one in requests
                ],
                usual=False,
            ),
            timeouts=_column([one.entry.policy.timeout_us for one in requests]),
            versions=_column([one.entry.version for one in requests]),
        )
        if not rows:
            return None, []
        [now_us] = [row[0] for row in rows if row[1] is None]
        return now_us, [ClaimedSlot(*row[1:]) for row in rows if row[1] is not None]

    def read(self, names: Sequence[str]) -> tuple[int, dict[str, Row]]:
        """Return the database's time and the rows of these entries."""
        rows = self.database.run("read_tasks", names=[*names])
        return rows[0][0], {row[1]: Row(*row[2:]) for row in rows if row[1] is not None}

    def count_missed(self, slots: Mapping[str, int]) -> None:
        """Add to the counts of slots that had no message; at most CHUNK entries."""
        self.database.change("count_missed", names=[*slots], slots=[*slots.values()])

    def confirm(self, sent: Sequence[tuple[str, int]], *, rests: bool = False) -> int:
        """Confirm these (name, epoch), at most CHUNK: the broker has them.

        ``rests``: runs that were asked for, kept until their deadline.
        """
        return self.database.change(
            "keep_requested_runs" if rests else "confirm",
            names=[name for name, _ in sent],
            epochs=[epoch for _, epoch in sent],
        )

    def reclaim(
        self,
        entries: Sequence[Entry],
        *,
        lease: float,
        until_us: int,
    ) -> list[Orphan]:
        """Take over slots whose claimer did not confirm within the lease."""
        rows = self.database.run(
            "reclaim_pending",
            names=[entry.name for entry in entries],
            versions=_column([entry.version for entry in entries]),
            lease=lease,
            until=from_us(until_us),
            holder=self.holder,
        )
        return [Orphan(*row) for row in rows]

    def asked(self) -> tuple[int, list[RequestedRun]]:
        """Return the database's time and the runs that people asked for."""
        rows = self.database.run("read_requested_runs")
        return rows[0][0], [
            RequestedRun(*row[1:]) for row in rows if row[1] is not None
        ]

    def take_requested(
        self,
        requests: Sequence[tuple[RequestedRun, int | None]],
        versions: Sequence[int | None],
        *,
        until_us: int,
    ) -> list[tuple[str, int, int, int]]:
        """Take runs with their deadlines; return (name, due_us, epoch, era) of each.

        Only where the entry's row is as it was when it was read: no slot and no
        other question came in between. ``versions`` are those of the entries.
        """
        rows = self.database.run(
            "take_requested_runs",
            until=from_us(until_us),
            holder=self.holder,
            names=[one.name for one, _ in requests],
            dues=[from_us(one.due_us) for one, _ in requests],
            eras=[one.era for one, _ in requests],
            epochs=[one.task_epoch for one, _ in requests],
            deadlines=[_instant(ends_us) for _, ends_us in requests],
            versions=_column([*versions]),
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def drop_requested(
        self, gone: Sequence[RequestedRun]
    ) -> list[tuple[str, int, int]]:
        """Remove runs, each only as it was read; return (name, due_us, era)."""
        rows = self.database.run(
            "drop_requested_runs",
            names=[one.name for one in gone],
            dues=[from_us(one.due_us) for one in gone],
            eras=[one.era for one in gone],
            epochs=[one.epoch for one in gone],
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def declare(self, entries: Sequence[Entry], *, term: float) -> list[str]:
        """Declare for a term that this replica's code has these, at most CHUNK.

        Return the names that living code declares with another task or schedule.
        """
        return self.database.column(
            "declare",
            term=term,
            countdowns=[entry.countdown_us for entry in entries],
            **_declared(entries),
        )

    def announce(  # noqa: PLR0913  # columns
        self,
        *,
        host: str,
        pid: int,
        version: str,
        entries: int,
        unreadable: int = 0,
        held: Sequence[str] = (),
        differing: Sequence[str] = (),
    ) -> None:
        """Record that this process lives."""
        self.database.change(
            "announce",
            holder=self.holder,
            host=host,
            pid=pid,
            version=version,
            entries=entries,
            unreadable=unreadable,
            held=[*held],
            differing=[*differing],
            kind=self.kind,
        )

    def read_lives(self, *, renewal: float) -> list[Seen]:
        """Return process lives whose runs were not renewed within so many seconds."""
        rows = self.database.run("read_lives", renewal=renewal)
        return [(holder, seen_at) for holder, seen_at in rows]

    def report_lost_runs(self, silent: Sequence[Seen]) -> int:
        """Report the runs of these lives as lost; return of how many entries."""
        return self.database.change(
            "report_lost_runs",
            holder=new_id(),
            holders=[holder for holder, _ in silent],
            seen=[seen_at for _, seen_at in silent],
        )

    def forget(self, *, after: float) -> list[str]:
        """Remove entries that no replica has declared for so many seconds."""
        return self.database.column("forget_undeclared", after=after)

    # Stored schedules

    def read_edits(self, since: str, after: tuple[int, str]) -> DefinitionPage:
        """Return edits that a snapshot did not show after (edit, name)."""
        edit, name = after
        rows = self.database.run("read_edits", since=since, edit=str(edit), name=name)
        return DefinitionPage.of(rows)

    def load_schedules(self, name: str) -> DefinitionPage:
        """Return this kind's stored schedules after a name, at most CHUNK."""
        rows = self.database.run("load_schedules", name=name, local=self.local)
        return DefinitionPage.of(rows)

    def read_schedules(self, names: Sequence[str]) -> DefinitionPage:
        """Return stored schedules by name, with what their messages are made of."""
        rows = self.database.run("read_schedules", names=[*names])
        return DefinitionPage.of(rows)

    def give_back(self, entries: Sequence[Entry]) -> list[str]:
        """Let these stored schedules count; return those that do from now on."""
        return self.database.column(
            "give_back",
            versions=[entry.version for entry in entries],
            **_declared(entries),
        )


def _declared(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """Return what a declaration says of entries."""
    return {
        "names": [entry.name for entry in entries],
        "tasks": [entry.task for entry in entries],
        "schedules": [entry.described for entry in entries],
        "deliveries": [entry.policy.delivery.value for entry in entries],
        "periods": [entry.period_us for entry in entries],
        "timeouts": [entry.policy.timeout_us for entry in entries],
        "runs": [entry.policy.run.value for entry in entries],
    }


def _instant(instant_us: int | None) -> datetime | None:
    return None if instant_us is None else from_us(instant_us)


def _column(values: list[Any], *, usual: object = None) -> list[Any]:
    """Return a column of the question, empty where it says the usual throughout."""
    return [] if values.count(usual) == len(values) else values
