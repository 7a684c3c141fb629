"""What became of the slots: pure arithmetic over what was recorded.

Instants are whole microseconds since 1970 by the database's clock, durations seconds.
A slot is *due* when its grid says so, *fired* when a run of the task names it, *lost*
when none does, *doubled* when two do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

SECOND = 1_000_000
SETTLE = 2.0
"""Seconds after its end for which an event is still the cause of a gap."""


class Cause(StrEnum):
    """What was being done to whom when a gap arose."""

    QUIET = "quiet"
    KILL = "kill -9"
    FREEZE = "freeze"
    RESTART = "PostgreSQL restart"
    CUT = "connections cut"
    BROKER = "broker stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the task, as it recorded itself."""

    due_us: int
    began_us: int
    winner: str
    """Name of the scheduler whose claim it was; empty where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that was done to somebody."""

    cause: Cause
    subject: str
    began_us: int
    ended_us: int

    def touches(self, from_us: int, to_us: int) -> bool:
        """Whether the event, or what it leaves behind, overlaps the time."""
        settled = self.ended_us + int(SETTLE * SECOND)
        return self.began_us < to_us and from_us < settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The time between two runs that followed one another."""

    began_us: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The account of a stretch of time."""

    since_us: int
    until_us: int
    due: tuple[int, ...]
    fired: tuple[int, ...]
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    stray: tuple[int, ...]
    """Slots that were run and lie on no grid: as wrong as doubled ones."""
    gaps: dict[Cause, Gap]
    """The greatest gap by what was going on."""
    wins: dict[str, int]


def tally(
    runs: Iterable[Run],
    events: Sequence[Event],
    *,
    since_us: int,
    until_us: int,
    period_us: int = SECOND,
) -> Tally:
    """Return the account of all slots due from `since_us` to before `until_us`."""
    counted = sorted(
        (run for run in runs if since_us <= run.due_us < until_us),
        key=lambda run: run.began_us,
    )
    times = Counter(run.due_us for run in counted)
    due = _grid(counted, since_us, until_us, period_us)
    return Tally(
        since_us=since_us,
        until_us=until_us,
        due=due,
        fired=tuple(slot for slot in due if times[slot]),
        lost=tuple(slot for slot in due if not times[slot]),
        doubled=tuple(slot for slot in sorted(times) if times[slot] > 1),
        stray=tuple(slot for slot in sorted(times) if slot not in set(due)),
        gaps=_gaps(counted, events, since_us, until_us),
        wins=dict(Counter(run.winner for run in counted)),
    )


def cause_of(events: Iterable[Event], from_us: int, to_us: int) -> Cause:
    """Return the latest event that the time touches, or quiet."""
    touching = [event for event in events if event.touches(from_us, to_us)]
    if not touching:
        return Cause.QUIET
    return max(touching, key=lambda event: event.began_us).cause


def _grid(
    runs: Sequence[Run], since_us: int, until_us: int, period_us: int
) -> tuple[int, ...]:
    """Return every slot of the stretch, on the grid on which most of the runs lie."""
    if not runs:
        return tuple(range(since_us, until_us, period_us))
    offsets = Counter(run.due_us % period_us for run in runs)
    ((offset, _),) = offsets.most_common(1)
    first = since_us + (offset - since_us) % period_us
    return tuple(range(first, until_us, period_us))


def _gaps(
    runs: Sequence[Run], events: Sequence[Event], since_us: int, until_us: int
) -> dict[Cause, Gap]:
    """Return the greatest gap by cause; the stretch's own ends bound the outer two."""
    instants = [
        since_us,
        *(run.began_us for run in runs if since_us < run.began_us < until_us),
        until_us,
    ]
    greatest: dict[Cause, Gap] = {}
    for before, after in pairwise(instants):
        cause = cause_of(events, before, after)
        gap = Gap(began_us=before, seconds=(after - before) / SECOND)
        if cause not in greatest or gap.seconds > greatest[cause].seconds:
            greatest[cause] = gap
    return greatest
