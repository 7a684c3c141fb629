"""What became of every slot: pure arithmetic over what was recorded.

A slot is due from its grid, claimed in PostgreSQL, arrived on the broker. One that
arrived twice is a failure. One that never arrived must be explained by a blow that
fell between its claim and its publish, or by a server that was away; else it is a
failure too. Nothing here reads a clock.
"""

from __future__ import annotations

import collections
import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SECOND = 1_000_000
# Claim and publish of a batch take some 50 ms; a freeze may begin before the server
# has run a claim that was already on its way. What lies further apart did not meet.
BEFORE_CLAIM = 0.25
AFTER_CLAIM = 0.5


class Blow(enum.StrEnum):
    """What was done to the cluster."""

    KILLED = "killed"
    FROZEN = "frozen"
    DATABASE_AWAY = "database away"
    BROKER_AWAY = "broker away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A blow, in seconds of the host's wall clock; `pid` for one on a process."""

    blow: Blow
    began: float
    ended: float
    pid: int | None = None
    aimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message as it came off the broker."""

    name: str
    due_us: int
    era: int
    epoch: int
    task_id: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A slot won in PostgreSQL, as the audit saw it commit."""

    name: str
    due_us: int
    era: int
    epoch: int
    pid: int | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A slot whose message never came; `cause` is None where nothing explains it."""

    name: str
    due_us: int
    claimed: bool
    cause: Blow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Two messages of one entry that follow each other, and what lay between."""

    name: str
    seconds: float
    ended: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Every slot due between two instants, and what became of it."""

    due: int
    fired: int
    lost: tuple[Lost, ...]
    doubled: tuple[tuple[str, int], ...]
    stray: tuple[Arrival, ...]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    wakes: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    lateness: tuple[float, float, float] = (0.0, 0.0, 0.0)
    overdue: int = 0
    """Messages that came when the next slot of their entry was due already."""

    @property
    def unexplained(self) -> tuple[Lost, ...]:
        """Lost slots that no blow explains."""
        return tuple(lost for lost in self.lost if lost.cause is None)

    @property
    def stands(self) -> bool:
        """No slot twice, none off its grid, none lost without a cause."""
        return bool(self.due) and not (self.doubled or self.stray or self.unexplained)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was recorded of one run."""

    period: float
    since: float
    until: float
    arrivals: Sequence[Arrival]
    claims: Sequence[Claim] = ()
    events: Sequence[Event] = ()
    names: Sequence[str] = ()


def judge(evidence: Evidence) -> Verdict:
    """Return what became of every slot due between `since` and `until`.

    Twice is twice whenever it happened; gaps and lateness are those of the window.
    """
    period_us = round(evidence.period * SECOND)
    window = [
        arrival
        for arrival in evidence.arrivals
        if evidence.since - evidence.period
        <= arrival.due_us / SECOND
        <= evidence.until + evidence.period
    ]
    arrived = _by_name(evidence.arrivals)
    claimed = {(claim.name, claim.due_us): claim for claim in evidence.claims}
    seen = _Seen()
    for name in sorted({*evidence.names, *arrived, *(n for n, _ in claimed)}):
        own = arrived.get(name, [])
        marks = [a.due_us for a in own] or [d for n, d in claimed if n == name]
        slots = _grid(marks, period_us, evidence)
        times = collections.Counter(arrival.due_us for arrival in own)
        seen.due.update((name, slot) for slot in slots)
        seen.doubled += [(name, slot) for slot, n in sorted(times.items()) if n > 1]
        if marks:
            seen.stray += [a for a in own if (a.due_us - marks[0]) % period_us]
        for slot in slots:
            if slot not in times:
                claim = claimed.get((name, slot))
                seen.lost.append(_lost(name, slot, claim, evidence))
    ids = collections.Counter(arrival.task_id for arrival in evidence.arrivals)
    twice = {task_id for task_id, n in ids.items() if n > 1}
    seen.doubled += sorted(
        {(a.name, a.due_us) for a in evidence.arrivals if a.task_id in twice}
        - set(seen.doubled)
    )
    return Verdict(
        due=len(seen.due),
        fired=len(seen.due) - len(seen.lost),
        lost=tuple(seen.lost),
        doubled=tuple(seen.doubled),
        stray=tuple(seen.stray),
        gaps=_gaps(_by_name(window), seen.lost, evidence),
        wakes=len({slot for _, slot in seen.due}),
        events=collections.Counter(
            f"{event.blow}{', aimed' if event.aimed else ''}"
            for event in evidence.events
        ),
        lateness=_lateness(window),
        overdue=sum(
            arrival.at - arrival.due_us / SECOND > evidence.period for arrival in window
        ),
    )


class _Seen:
    """What is collected while the entries are gone through."""

    def __init__(self) -> None:
        self.due: set[tuple[str, int]] = set()
        self.doubled: list[tuple[str, int]] = []
        self.stray: list[Arrival] = []
        self.lost: list[Lost] = []


def _by_name(arrivals: Iterable[Arrival]) -> dict[str, list[Arrival]]:
    found: dict[str, list[Arrival]] = collections.defaultdict(list)
    for arrival in sorted(arrivals, key=lambda a: a.at):
        found[arrival.name].append(arrival)
    return found


def _grid(marks: Sequence[int], period_us: int, evidence: Evidence) -> range:
    """Return the slots of a grid through `marks` that fall due in the window."""
    since, until = int(evidence.since * SECOND), int(evidence.until * SECOND)
    anchor = marks[0] if marks else 0
    first = anchor - (anchor - since) // period_us * period_us
    return range(first, until, period_us)


def _lost(name: str, slot: int, claim: Claim | None, evidence: Evidence) -> Lost:
    cause = None
    for event in evidence.events:
        if event.pid is not None:
            meets = claim is not None and claim.pid == event.pid
            near = claim is not None and (
                -BEFORE_CLAIM <= event.began - claim.at <= AFTER_CLAIM
            )
        else:
            # a server away covers the slot's whole time, not only its first instant
            meets = True
            due = slot / SECOND
            near = event.began <= due + evidence.period and event.ended >= due
        if meets and near:
            cause = event.blow
            break
    return Lost(name=name, due_us=slot, claimed=claim is not None, cause=cause)


def _gaps(
    arrived: Mapping[str, Sequence[Arrival]],
    lost: Sequence[Lost],
    evidence: Evidence,
) -> dict[str, Gap]:
    """Return the greatest gap of each cause."""
    holes = collections.defaultdict(list)
    for slot in lost:
        holes[slot.name].append(slot.due_us / SECOND)
    greatest: dict[str, Gap] = {}
    for name, own in arrived.items():
        for before, after in itertools.pairwise(own):
            cause = _between(before.at, after.at, holes[name], evidence.events)
            gap = Gap(
                name=name, seconds=after.at - before.at, ended=after.at, cause=cause
            )
            if cause not in greatest or greatest[cause].seconds < gap.seconds:
                greatest[cause] = gap
    return greatest


def _between(
    before: float, after: float, holes: Sequence[float], events: Sequence[Event]
) -> str:
    if any(before < hole < after for hole in holes):
        return "after a lost slot"
    near = [e for e in events if e.began <= after and e.ended >= before]
    return f"after {near[0].blow}" if near else "undisturbed"


def _lateness(arrivals: Sequence[Arrival]) -> tuple[float, float, float]:
    """Return p50, p95 and p99 of how late the last message of a slot came."""
    last: dict[int, float] = {}
    for arrival in arrivals:
        late = arrival.at - arrival.due_us / SECOND
        last[arrival.due_us] = max(late, last.get(arrival.due_us, late))
    ordered = sorted(last.values())
    if not ordered:
        return (0.0, 0.0, 0.0)
    p50, p95, p99 = (
        ordered[int((len(ordered) - 1) * part)] for part in (0.5, 0.95, 0.99)
    )
    return (p50, p95, p99)
