"""What happened to a subject within some minutes, counted so that it adds up. Pure.

A subject is an entry, a task or a queue of an outbox, or a database with a limit:
``entry NAME``, ``task NAME``, ``queue NAME``, ``limit NAME``. What is known of it is a
cell: counts by short keys, written as a text like ``l14:60 o1:60 r9:60``. Small letters
add up: ``o`` and a report's number counts that report; ``l``, ``w``, ``r`` (lateness,
wait in the queue, run time) and a bucket count how often it took so long; ``n`` counts
what was sent. Capitals are maxima: ``D`` is the depth of an outbox, ``A`` the age of
its oldest task in milliseconds.

Of a limit ``a`` counts admitted tasks, and ``T`` is the most traffic, operations per
second. What lasts is counted times the milliseconds that it lasted, so that it adds up
over processes: ``h`` tasks held, ``t`` traffic, ``i`` the limit in force. ``k`` is for
how long that is known: a worker that is one of ten counts a tenth of what all see
alike, and the mean is ``h / k``, also where some of them write nothing.

    Figures.add() ─▶ cells of a minute ─▶ rows of a process and minute
    rows ─merged()─▶ rows of 15 minutes ─▶ rows of an hour
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

MINUTE_US = 60_000_000
SHORTEST = 1_000
"""Microseconds, below which times are not told apart."""
PARTS = 16
"""Rows of a minute: a chart reads one of them."""
STEPS = (1, 15, 60)
"""Minutes of a row."""
KEPT = {1: 6 * 60, 15: 8 * 24 * 60, 60: 30 * 24 * 60}
"""Minutes for which rows of each step are kept."""
SUBJECTS = 20_000
"""Subjects of a minute, at most; what others did is in the sums alone."""
OPEN = 10
"""Minutes that wait to be written, at most."""
WHOLE = 65.0
"""Seconds after which a minute is over of which nothing later tells the time."""

LATE, WAIT, RUN, OUTCOME, SENT = "l", "w", "r", "o", "n"
DEPTH, AGE = "D", "A"
ADMITTED, HELD, TRAFFIC, IN_FORCE, KNOWN, PEAK = "a", "h", "t", "i", "k", "T"
ALL_OUTBOX = "outbox"
ALL_LIMITS = "limits"
SUMS = {"entry": "entries", "task": ALL_OUTBOX}
"""The subject that adds up all of a kind."""

Cell = dict[str, int]
CAPITALS = "Z~"
"""Keys above it are small letters."""


def bucket(us: int) -> int:
    """Return the bucket of a time: 0 below 1 ms, then two for each doubling."""
    return 1 + int(2 * math.log2(us / SHORTEST)) if us >= SHORTEST else 0


def quantiles(
    cell: Mapping[str, int], measure: str, *parts: float
) -> list[float | None]:
    """Return the seconds that each part of the times did not exceed; None: none known.

    Within a bucket times are taken as spread evenly on the logarithmic scale, so it is
    at most a factor of 1.41 off.
    """
    counts = sorted((int(key[1:]), n) for key, n in cell.items() if key[0] == measure)
    total = sum(count for _, count in counts)
    return [_quantile(counts, part * total) if total else None for part in parts]


def _quantile(counts: Sequence[tuple[int, int]], left: float) -> float | None:
    for number, count in counts:
        if count >= left:
            share = left / count
            return 0.001 * (share if number == 0 else 2 ** ((number - 1 + share) / 2))
        left -= count
    return None


def part_of(subject: str) -> int:
    """Return which rows a subject stands in."""
    return crc32(subject.encode()) % PARTS


def written(cell: Cell) -> str:
    """Return a cell as text."""
    return " ".join(f"{key}:{count}" for key, count in cell.items())


def read(text: str) -> Cell:
    """Return the cell of a text."""
    words = text.replace(":", " ").split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def merged(cells: Iterable[Cell]) -> Cell:
    """Return what cells come to together."""
    total: Cell = {}
    for cell in cells:
        for key, count in cell.items():
            put(total, key, count)
    return total


def put(cell: Cell, key: str, count: int) -> None:
    """Add a count to a cell."""
    before = cell.get(key, 0)
    cell[key] = before + count if key > CAPITALS else max(before, count)


def spent_by(at_us: int, took: float, epoch: int, *, first: bool = True) -> Spent:
    """Return how long a run waited and took that ended at an instant.

    Args:
        at_us: when it ended, microseconds since 1970.
        took: seconds from its start to its end.
        epoch: of its slot: at least the microsecond of the claim.
        first: whether it is its first try; others waited for something else.

    """
    run_us = int(took * 1_000_000)
    return Spent(max(at_us - run_us - epoch, 0) if first else None, run_us)


class Spent(NamedTuple):
    """Microseconds of a run."""

    wait_us: int | None
    """From its claim to its start; None: not known."""
    run_us: int


class FiguresRow(NamedTuple):
    """A row of one minute, as it is written."""

    at_us: int
    part: int
    figures: Mapping[str, str]


class Figures:
    """What one process counts until it is written. Of one thread at a time."""

    def __init__(self) -> None:
        self._minutes: dict[int, dict[str, Cell]] = {}
        self._since: dict[int, float] = {}
        """When a minute was first looked at, by the monotonic clock."""
        self._latest_us = 0
        self._closed_us = 0
        """Minutes before it are written: what comes late counts as of now."""

    def add(self, subject: str, at_us: int, key: str, count: int = 1) -> None:
        """Count something that happened at an instant of the database's clock."""
        self._latest_us = max(self._latest_us, at_us)
        minute = max(at_us // MINUTE_US * MINUTE_US, self._closed_us)
        cells = self._minutes.setdefault(minute, {})
        total = SUMS.get(subject.partition(" ")[0])
        if total is not None and key > CAPITALS:  # a sum of depths is no maximum
            put(cells.setdefault(total, {}), key, count)
        if subject in cells or len(cells) < SUBJECTS:
            put(cells.setdefault(subject, {}), key, count)

    def ready(self, now: float, *, leaving: bool = False) -> list[FiguresRow]:
        """Return the rows of the minutes that are over; leaving: of all.

        ``now``: of the monotonic clock.
        """
        for at_us in sorted(self._minutes)[:-OPEN]:
            del self._minutes[at_us]
        self._since = {one: self._since.get(one, now) for one in self._minutes}
        rows = []
        for at_us, cells in self._minutes.items():
            over = self._latest_us >= at_us + MINUTE_US
            if over or leaving or now - self._since[at_us] >= WHOLE:
                parts: dict[int, dict[str, str]] = {}
                for subject, cell in cells.items():
                    parts.setdefault(part_of(subject), {})[subject] = written(cell)
                rows += [FiguresRow(at_us, *part) for part in sorted(parts.items())]
        return rows

    def wrote(self, rows: Iterable[FiguresRow]) -> None:
        """Forget what was written."""
        for row in rows:
            self._minutes.pop(row.at_us, None)
            self._closed_us = max(self._closed_us, row.at_us + MINUTE_US)
