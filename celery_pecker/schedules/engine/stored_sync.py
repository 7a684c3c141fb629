"""Stored schedules, followed: read at start, and each edit within half a second.

A look asks for the edits that the last one's snapshot did not show, so its work grows
with the edits and never with what is stored, and no order of commits hides one. All are
read again, page by page between two wake-ups, where a snapshot proves nothing: over a
new connection, after a restore, after an hour without a look.

Late news cost no slot: a claim names the version that was read, and the row has the one
that is committed. A row that cannot be read is parked: it runs in those replicas that
can read it, and is logged and counted by this one.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import (
    NEVER_US,
    Entry,
    StoredSchedule,
)
from celery_pecker.schedules.engine.repository import (
    CHUNK,
    DefinitionPage,
    Repository,
)
from celery_pecker.schedules.engine.timekeeper import Timekeeper

logger = logging.getLogger("celery_pecker.beat")

COMPARE_US = 3_600 * SECOND
"""After so long without a look all are read again."""
BUILT = 20_000
"""Messages of stored schedules that are kept built."""
AHEAD_US = 60 * SECOND
"""How long before its slot a message is built, if there is nothing else to do."""
FEW = 50
"""Messages that are built ahead in one go: some 50 ms."""
DONE_US = 60 * SECOND
"""How long a run that was the only one is remembered after it."""


class Definitions(Protocol):
    """What a stored row means: the entry, and its message on the way out."""

    def entry(self, row: StoredSchedule) -> Entry:
        """Return the entry; raise whatever is wrong with the row."""

    def build(self, row: StoredSchedule) -> None:
        """Build the message; raise BrokerUnavailable, or what is wrong with the row."""

    def forget(self, name: str) -> None:
        """Forget the message."""

    def note_other_definitions(self) -> None:
        """Note that there are schedules for the other kind of replicas."""


@dataclass(slots=True)
class _Load:
    """All of them being read again."""

    name: str = ""
    since: str = ""
    connection: int = -1
    seen: set[str] = field(default_factory=set)


@dataclass(slots=True)
class StoredSync:
    """The looks of one replica at stored schedules."""

    agenda: Agenda
    rows: Repository
    time: Timekeeper
    definitions: Definitions
    every: float
    loaded: bool = False
    """Whether all were read once."""
    next: float = 0.0
    """When the next look is due by the monotonic clock."""
    _code: frozenset[str] = field(init=False)
    _parked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Version and transaction of rows that cannot be read here."""
    _built: dict[str, None] = field(default_factory=dict)
    """Names whose messages are built, the oldest first."""
    _single: list[tuple[int, str, int]] = field(default_factory=list)
    """Entries of one run: when to look whether they had it."""
    _since: str = ""
    _next_since: str = ""
    _page: tuple[int, str] | None = None
    _read_us: int = 0
    _connection: int = -1
    _loading: _Load | None = None

    def __post_init__(self) -> None:
        """Remember what code declares: no row counts for these names."""
        self._code = frozenset(self.agenda.declared)

    @property
    def due(self) -> bool:
        """Whether it is time for a look."""
        return self.time.now() >= self.next

    @property
    def unreadable(self) -> int:
        """How many rows are parked."""
        return len(self._parked)

    def step(self) -> None:
        """Take in one page of what is new; the rest follows at once."""
        self.next = self.time.now() + self.every
        if self._loading is None and self._connection == self.rows.database.made:
            sent = self.time.now()
            first = int(self._since.partition(":")[0]), ""
            page = self.rows.read_edits(self._since, self._page or first)
            if self._continues(page):
                self.time.observe(page.now_us, sent=sent)
                self._take_edits(page)
                return
        self._load()

    def unready(self, names: Iterable[str]) -> set[str]:
        """Build the messages of stored entries; return those that cannot be sent now.

        Raises:
            BrokerUnavailable: The broker went away meanwhile.

        """
        built, code = self._built, self._code
        wanted = [name for name in names if name not in code]
        missing = [*dict.fromkeys(name for name in wanted if name not in built)]
        if not missing:
            return set()
        for name in wanted:
            if name in built:  # these are not to make room for the others
                del built[name]
                built[name] = None
        for start in range(0, len(missing), CHUNK):
            self._build(missing[start : start + CHUNK])
        return {name for name in missing if name not in built}

    def build_ahead(self) -> bool:
        """Build some messages that are due soon; return whether there may be more.

        Built at their slots, 10,000 that are due together began ten seconds late.

        Raises:
            BrokerUnavailable: The broker went away meanwhile.

        """
        room = BUILT - len(self._built)
        if room <= 0:
            return False
        soon = self.agenda.due_by(self.time.now_us() + AHEAD_US)
        stored = self.agenda.stored
        missing = (one for one in soon if one not in self._built and stored(one))
        names = [*dict.fromkeys(islice(missing, min(FEW, room)))]
        if names:
            self._build(names)
        return bool(names)

    def recall(self, names: Iterable[str]) -> None:
        """Read entries that are not known here: they may have had their only run.

        An unconfirmed slot of theirs, or a requested run, needs
        them once more.
        """
        knows, code = self.agenda.knows, self._code
        wanted = [one for one in {*names} if not knows(one) and one not in code]
        if wanted and self.loaded:
            page = self.rows.read_schedules(wanted[:CHUNK])
            for row in page.rows:
                self._apply(row, page.now_us)

    def read(self, names: Sequence[str]) -> list[Entry]:
        """Return these as entries, as far as they can be read."""
        page = self.rows.read_schedules(names)
        tried = [user_code.tried(self.definitions.entry, row) for row in page.rows]
        return [entry for entry, _ in tried if entry is not None]

    def _continues(self, page: DefinitionPage) -> bool:
        """Return whether the page goes on where the last one ended."""
        quiet_us = page.now_us - self._read_us
        return (
            not page.went_back
            and abs(quiet_us) < COMPARE_US
            and self._connection == self.rows.database.made
        )

    def _take_edits(self, page: DefinitionPage) -> None:
        if self._page is None:
            self._next_since = page.snapshot
        for row in page.rows:
            self._apply(row, page.now_us)
        self._read_us = page.now_us
        if len(page.rows) == CHUNK:
            last = page.rows[-1]
            self._page = last.edit, last.name
            self.next = 0.0
        else:
            self._page = None
            self._since = self._next_since
        self._forget_done(page.now_us)

    def _load(self) -> None:
        """Read one page of all; at the last, drop what is not there any more."""
        load = self._loading
        if load is None or load.connection != self.rows.database.made:
            load = _Load()
        sent = self.time.now()
        page = self.rows.load_schedules(load.name)
        self.time.observe(page.now_us, sent=sent)
        if not load.since:
            load.since, load.connection = page.snapshot, self.rows.database.made
        elif load.connection != self.rows.database.made:
            self._loading, self.next = None, 0.0  # pages of two servers, perhaps
            return
        if page.other_kind:
            self.definitions.note_other_definitions()
        for row in page.rows:
            load.seen.add(row.name)
            self._apply(row, page.now_us)
        self._read_us = page.now_us
        self.next = 0.0
        if page.last is not None:
            load.name = page.last
            self._loading = load
            return
        self._loading = None
        for name in [*self.agenda.names, *self._parked]:
            if name not in load.seen and name not in self._code:
                self._drop(name)
        self._since, self._page = load.since, None
        self._connection = load.connection
        self.loaded = True

    def _apply(self, row: StoredSchedule, now_us: int) -> None:
        """Follow one row, unless it is known as it is."""
        name = row.name
        if name in self._code:
            return
        known = self.agenda.stored(name)
        known_as = (known.version, known.edit) if known else self._parked.get(name)
        gone = row.over or row.local != self.rows.local
        if gone and not row.over:
            self.definitions.note_other_definitions()
        if known_as == (row.version, row.edit) and not gone:
            return
        if gone:
            self._drop(name)
            return
        entry, error = user_code.tried(self.definitions.entry, row)
        if entry is None or row.row is None:
            self._park(row, error or "it has no row in pecker_tasks")
            return
        self._forget(name)
        self.agenda.add(entry, row.row, now_us)
        if row.once_us is not None:
            done_us = max(row.once_us, now_us) + DONE_US
            heappush(self._single, (done_us, name, row.version))

    def _park(self, row: StoredSchedule, why: object) -> None:
        self._drop(row.name)
        self._parked[row.name] = row.version, row.edit
        logger.error(
            "pecker: stored schedule %r, version %d, cannot be read and does not run"
            " here: %s",
            row.name,
            row.version,
            why,
        )

    def _drop(self, name: str) -> None:
        self.agenda.drop(name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._parked.pop(name, None)
        self._built.pop(name, None)
        self.definitions.forget(name)

    def _build(self, names: Sequence[str]) -> None:
        """Read what these messages are made of, each under the version that is known.

        One that was edited meanwhile is followed now, and left out of this claim.
        """
        sent = self.time.now()
        page = self.rows.read_schedules(names)
        self.time.observe(page.now_us, sent=sent)
        rows = {row.name: row for row in page.rows}
        for name in names:
            row, known = rows.get(name), self.agenda.stored(name)
            if row is None:
                self._drop(name)
            elif known is None or (known.version, known.edit) != (
                row.version,
                row.edit,
            ):
                self._apply(row, page.now_us)
            else:
                self._build_one(row)
        while len(self._built) > BUILT:
            oldest = next(iter(self._built))
            del self._built[oldest]
            self.definitions.forget(oldest)

    def _build_one(self, row: StoredSchedule) -> None:
        _, error = user_code.tried(self.definitions.build, row)
        if isinstance(error, BrokerUnavailable):
            raise error
        if error is not None:
            self._park(row, error)
            return
        self._built[row.name] = None

    def _forget_done(self, now_us: int) -> None:
        """Forget entries of one run that had it a while ago."""
        while self._single and self._single[0][0] <= now_us:
            _, name, version = heappop(self._single)
            entry = self.agenda.stored(name)
            if entry is None or entry.version != version:
                continue  # it was removed, or is another one by now
            if self.agenda.following(name, now_us)[0] >= NEVER_US:
                self._drop(name)
            else:
                heappush(self._single, (now_us + DONE_US, name, version))
