"""What happened to a subject within some minutes, counted so that it adds up. Pure.

A subject is an entry, a task or a queue of an outbox, a database with a limit, or the
task of sharded jobs: ``entry NAME``, ``task NAME``, ``queue NAME``, ``limit NAME``,
``job NAME``. What is known of it is a
cell: counts by short keys, written as a text like ``l14:60 o1:60 r9:60``. Small letters
add up: ``o`` and a report's number counts that report; ``l``, ``w``, ``r`` (lateness,
wait in the queue, run time) and a bucket count how often it took so long; ``n`` counts
what was sent, ``c`` jobs that were cancelled. Capitals are maxima: ``D`` is the depth
of an outbox, ``A`` the age of its oldest task in milliseconds.

Of a limit ``a`` counts admitted tasks, and ``T`` is the most traffic, operations per
second. What lasts is counted times the milliseconds that it lasted, so that it adds up
over processes: ``h`` tasks held, ``t`` traffic, ``i`` the limit in force. ``k`` is for
how long that is known: a worker that is one of ten counts a tenth of what all see
alike, and the mean is ``h / k``, also where some of them write nothing.

    Figures.add() ─▶ cells of a minute ─▶ rows of a process and minute
    rows ─merged()─▶ rows of 15 minutes ─▶ rows of an hour
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
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

LATE, WAIT, RUN, OUTCOME, SENT, CANCELLED = "l", "w", "r", "o", "n", "c"
TIMES = (LATE, WAIT, RUN)
PLACES = {f"{one}{number}": (one, number) for one in TIMES for number in range(128)}
"""Measure and bucket of each key: a chart looks up thousands."""
DEPTH, AGE = "D", "A"
ADMITTED, HELD, TRAFFIC, IN_FORCE, KNOWN, PEAK = "a", "h", "t", "i", "k", "T"
ALL_OUTBOX = "outbox"
ALL_LIMITS = "limits"
SUMS = {"entry": "entries", "task": ALL_OUTBOX, "job": "jobs"}
"""The subject that adds up all of a kind."""

Cell = dict[str, int]
CAPITALS = "Z~"
"""Keys above it are small letters."""


def bucket(us: int) -> int:
    """Return the bucket of a time: 0 below 1 ms, then two for each doubling."""
    return 1 + int(2 * math.log2(us / SHORTEST)) if us >= SHORTEST else 0


def quantiles(
    cell: Mapping[str, int], *parts: float
) -> dict[str, Sequence[float | None]]:
    """Return, of each of TIMES, the seconds that each part did not exceed; or None.

    Within a bucket times are taken as spread evenly on the logarithmic scale, so it is
    at most a factor of 1.41 off.

    Args:
        cell: what happened; read once, because a chart asks this of hundreds.
        parts: of all times of a measure, the smallest first.

    """
    counts: dict[str, list[tuple[int, int]]] = {one: [] for one in TIMES}
    for key, count in cell.items():
        if (place := PLACES.get(key)) is not None:
            counts[place[0]].append((place[1], count))
    return {one: _quantiles(sorted(some), parts) for one, some in counts.items()}


def _quantiles(
    counts: Sequence[tuple[int, int]], parts: Sequence[float]
) -> Sequence[float | None]:
    total, below, found = sum(count for _, count in counts), 0, []
    if not total:
        return [None] * len(parts)
    buckets = iter(counts)
    number, count = next(buckets)
    for part in parts:
        while below + count < part * total:
            below += count
            number, count = next(buckets)
        share = (part * total - below) / count
        seconds = 0.001 * (share if number == 0 else 2 ** ((number - 1 + share) / 2))
        found.append(round(seconds, 6))
    return found


def part_of(subject: str) -> int:
    """Return which rows a subject stands in."""
    return crc32(subject.encode()) % PARTS


def written(cell: Cell) -> str:
    """Return a cell as text."""
    return " ".join(f"{key}:{count}" for key, count in cell.items())


def read(text: str) -> Cell:
    """Return the cell of a text, or of several one after the other."""
    words = text.replace(":", " ").split()
    return _sum(zip(words[::2], map(int, words[1::2]), strict=True))


def merged(cells: Iterable[Cell]) -> Cell:
    """Return what cells come to together."""
    return _sum(chain.from_iterable(cell.items() for cell in cells))


def _sum(counts: Iterable[tuple[str, int]]) -> Cell:
    total: Cell = {}
    for key, count in counts:
        before = total.get(key)
        if before is None:
            total[key] = count
        else:
            total[key] = before + count if key > CAPITALS else max(before, count)
    return total


def put(cell: Cell, key: str, count: int) -> None:
    """Add a count to a cell."""
    before = cell.get(key, 0)
    cell[key] = before + count if key > CAPITALS else max(before, count)


def spent_by(at_us: int, took: float, epoch: int, *, first: bool = True) -> "Spent":
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
