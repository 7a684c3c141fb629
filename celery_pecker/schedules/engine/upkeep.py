"""What no wake-up shows, looked at every few seconds.

Rows that a replica of another version moved, slots that were claimed and never
confirmed, and the cold tables that show which replicas run. Bounded: one look
reads at most 1,000 rows, whatever is stored.
"""

import logging
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from celery_pecker.kernel.lease import SLACK
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import Orphan
from celery_pecker.schedules.engine.publishing import sample
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.history.life import RENEWAL, SilentProcesses

logger = logging.getLogger("celery_pecker.beat")

TERM = 180.0
"""Seconds for which a declaration counts; renewed after a third of it."""
PENDING_LEASE = 15.0
"""Seconds after which an unconfirmed slot is published again by another replica."""
MOST_HELD = 1_000
"""Names that a replica says its gate holds back (I9)."""
FORGET = 86_400.0
"""Seconds after which a row that no replica declares is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepPace:
    """How patient a replica is. Seconds."""

    slack: float = SLACK
    """How far a row may lie ahead before that counts as a clock that stepped back."""
    timeout: float = 2.0
    """How long a statement may take; one that arrives later takes nothing."""
    round_every: float = 5.0
    """Between looks at what no wake-up shows."""
    follow_every: float = 0.5
    """Between looks for edits: half of the second within which one acts."""


@dataclass(slots=True)
class Upkeep:
    """The rounds of one replica."""

    agenda: Agenda
    repository: Repository
    timekeeper: Timekeeper
    pace: UpkeepPace
    stored: StoredSync | None
    held: Callable[[], Collection[str]]
    next: float | None = None
    """When the next round is due by the monotonic clock; None before the first."""
    _cursor: int = 0
    _names: list[str] = field(default_factory=list)
    """The entries of the rounds, as they were when the first of them began."""
    _declared: int = 0
    _next_forgetting: float = 0.0
    _drops_reports: bool = False
    _otherwise: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When an entry was first and last seen declared otherwise."""
    _differing: set[str] = field(default_factory=set)
    _silent_processes: SilentProcesses = field(default_factory=SilentProcesses)
    _version: str = field(default_factory=partial(version, "celery-pecker"))

    @property
    def due(self) -> bool:
        """Whether it is time for a round."""
        return self.next is not None and self.timekeeper.now() >= self.next

    def begin(self) -> None:
        """Enroll and learn every entry, and declare them: once, before all else."""
        names = self.agenda.declared
        for start in range(0, max(1, len(names)), CHUNK):
            chunk = names[start : start + CHUNK]
            self._take_over(chunk)
            entries = [self.agenda.entry(name) for name in chunk]
            changed = self.repository.database.column(
                "anchor_changed",
                term=TERM,
                holder=self.repository.holder,
                names=chunk,
                schedules=[entry.described for entry in entries],
                periods=[entry.period_us for entry in entries],
            )
            if changed:
                logger.info(
                    "pecker: %d entries have a new schedule or are back, and count from"
                    " now: %s",
                    len(changed),
                    sample(changed),
                )
            self.timekeeper.refresh(chunk)
        self.next = self.timekeeper.now() + self.pace.round_every
        self._announce()
        for _ in range(0, len(names), CHUNK):
            self._declare()

    def step(self, *, reclaim: bool) -> list[Orphan]:
        """Make a round; return slots of others that are to be sent again."""
        self.next = self.timekeeper.now() + self.pace.round_every
        if self._cursor >= len(self._names):
            self._cursor, self._names = 0, self.agenda.names
        self.timekeeper.read(())  # a short round trip tells the time best
        chunk = self._names[self._cursor : self._cursor + CHUNK]
        known = [name for name in chunk if self.agenda.knows(name)]
        self._take_over(self.timekeeper.refresh(known))
        self._cursor += CHUNK
        return self._orphans() if reclaim else []

    def refresh_tables(self) -> None:
        """Renew what people see: after a round, so that nothing waits for it."""
        self._announce()
        names = len(self.agenda.declared)
        rounds = max(int(TERM / 3 / self.pace.round_every), 1)
        for _ in range(-(-names // (CHUNK * rounds))):
            self._declare()
        self._sweep()
        now = self.timekeeper.now()
        if now >= self._next_forgetting:
            self._next_forgetting = now + TERM
            self._drops_reports = not self.repository.keeps_reports
            self._give_back()
            for name in self.repository.forget(after=FORGET):
                logger.warning(
                    "pecker: %s was declared by no scheduler for a day", name
                )
        if self._drops_reports:  # shown, they would say for ever what was once so
            [(dropped,)] = self.repository.database.run("drop_reports", most=CHUNK)
            self._drops_reports = dropped > 0

    def _sweep(self) -> None:
        """Report the runs of processes that were killed as lost."""
        if not self._silent_processes.due(self.timekeeper.now()):
            return
        seen = self.repository.read_lives(renewal=RENEWAL)
        silent = self._silent_processes.update(self.timekeeper.now(), seen)
        if silent and self.repository.report_lost_runs(silent):
            logger.warning(
                "pecker: %d processes have not shown life for a minute: their runs are"
                " lost (celery -A proj pecker tasks)",
                len(silent),
            )

    def _announce(self) -> None:
        self.repository.announce(
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._version,
            entries=len(self.agenda),
            unreadable=0 if self.stored is None else self.stored.unreadable,
            held=sorted(self.held())[:MOST_HELD],
            differing=sorted(self._differing)[:MOST_HELD],
        )

    def _take_over(self, names: list[str]) -> None:
        """Let code's definition count where a stored one did."""
        take_over = partial(self.repository.database.column, "take_over", term=TERM)
        taken = take_over(names=names) if names else []
        if taken:
            logger.warning(
                "pecker: %d stored schedules are declared by code, which counts from"
                " now on: %s",
                len(taken),
                sample(taken),
            )

    def _give_back(self) -> None:
        """Let stored definitions count whose name no living code declares any more."""
        if self.stored is None:
            return
        names = self.repository.database.column("read_abandoned")
        entries = self.stored.read(names) if names else []
        taken_back = self.repository.give_back(entries) if entries else []
        if taken_back:
            logger.warning(
                "pecker: %d stored schedules are declared by no code any more, and"
                " count from now on: %s",
                len(taken_back),
                sample(taken_back),
            )

    def _declare(self) -> None:
        """Renew one chunk of declarations, each in turn."""
        names = self.agenda.declared
        if self._declared >= len(names):
            self._declared = 0
        chunk = names[self._declared : self._declared + CHUNK]
        differing = self.repository.declare(
            [self.agenda.entry(name) for name in chunk], term=TERM
        )
        self._note_differing(differing)
        self._declared += CHUNK

    def _note_differing(self, names: list[str]) -> None:
        """Note what other replicas declare otherwise, for longer than a deploy takes.

        Replicas take turns in declaring: each sees the other's declaration at times.
        """
        now = self.timekeeper.now()
        for name in names:
            first, _ = self._otherwise.get(name, (now, now))
            self._otherwise[name] = first, now
        self._otherwise = {
            name: (first, last)
            for name, (first, last) in self._otherwise.items()
            if now - last < TERM
        }
        seen = self._otherwise.items()
        lasting = {name for name, (first, last) in seen if last - first > TERM}
        if new := sorted(lasting - self._differing):
            logger.warning(
                "pecker: %d entries are declared with another task or schedule by"
                " another scheduler, for minutes: both are sent: %s",
                len(new),
                sample(new),
            )
        self._differing = lasting

    def _orphans(self) -> list[Orphan]:
        column = self.repository.database.column
        names = {*column("read_orphans", lease=PENDING_LEASE)}
        if self.stored is not None:
            self.stored.recall(names)
        ours = [name for name in names if self.agenda.knows(name)]
        if not ours:
            return []
        sent = self.timekeeper.now()
        return self.repository.reclaim(
            [self.agenda.entry(name) for name in ours],
            lease=PENDING_LEASE,
            until_us=self.timekeeper.at_us(sent + self.pace.timeout),
        )
