"""What is asked of stored schedules, by the names of the statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.model import Entry, Row, StoredSchedule


@dataclass(frozen=True, slots=True)
class DefinitionPage:
    """Stored schedules as one statement showed them."""

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
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> DefinitionPage:
        """Read the rows of a statement's answer."""
        now_us, snapshot, went_back, last, other_kind = rows[0][:5]
        return cls(
            now_us=now_us,
            snapshot=snapshot,
            went_back=went_back,
            last=last,
            other_kind=other_kind,
            rows=[_stored(row) for row in rows if row[5] is not None],
        )


def _stored(row: tuple[Any, ...]) -> StoredSchedule:
    hot = None if row[18] is None else Row(*row[18:24])
    return StoredSchedule(*(*row[5:18], hot, *row[24:]))


class StoredRows:
    """The table of stored schedules, for replicas of one kind."""

    def __init__(
        self, database: Database, *, local: bool, now: Callable[[], datetime | None]
    ) -> None:
        self._database = database
        self.local = local
        self._now = now

    @property
    def connection(self) -> int:
        """The number of the connection: another one may lead to another server."""
        return self._database.made

    def read_edits(self, since: str, after: tuple[int, str]) -> DefinitionPage:
        """Return edits that a snapshot did not show after (edit, name)."""
        edit, name = after
        rows = self._database.run(
            "read_edits", since=since, edit=str(edit), name=name, now=self._now()
        )
        return DefinitionPage.of(rows)

    def load_schedules(self, name: str) -> DefinitionPage:
        """Return this kind's stored schedules after a name, at most CHUNK."""
        rows = self._database.run(
            "load_schedules", name=name, local=self.local, now=self._now()
        )
        return DefinitionPage.of(rows)

    def read_schedules(self, names: Sequence[str]) -> DefinitionPage:
        """Return stored schedules by name, with what their messages are made of."""
        rows = self._database.run("read_schedules", names=[*names], now=self._now())
        return DefinitionPage.of(rows)

    def take_over(self, names: Sequence[str], *, term: float) -> list[str]:
        """Let code's definition of these count; return those that were stored ones."""
        rows = self._database.run(
            "take_over", names=[*names], term=term, now=self._now()
        )
        return [name for (name,) in rows]

    def read_abandoned(self) -> list[str]:
        """Return stored schedules whose name was code's and is not any more."""
        rows = self._database.run("read_abandoned", now=self._now())
        return [name for (name,) in rows]

    def give_back(self, entries: Sequence[Entry]) -> list[str]:
        """Let these stored schedules count; return those that do from now on."""
        rows = self._database.run(
            "give_back",
            now=self._now(),
            versions=[entry.version for entry in entries],
            **columns(entries),
        )
        return [name for (name,) in rows]


def columns(entries: Sequence[Entry]) -> dict[str, list[Any]]:
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
