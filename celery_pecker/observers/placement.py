"""How much each host takes, and how much it gives away. Pure.

Each host decides for itself, by the same survey: there is no central placement. A
host's share is that part of all the weight which its capacity is of all capacity. It
takes up to its share at once, so that the first host that looks does not take
everything, and beyond it what others let lie. It gives away what is above its share and
a margin, where hosts that can run it are below theirs: no more is moved than has to be.
While hosts are starting and most of the weight waits, no host takes: what the first one
took would move again when the others are there.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

SLACK = 0.02
"""Part of its share that a host may take beyond it: shares are whole numbers."""
MARGIN = 0.05
"""Part of its share above which a host begins to give away."""
TAKE_OVER_AFTER = 2.0
"""Seconds without progress after which a host takes what others should have taken."""
TAKE_OLD_AFTER = 30.0
"""Seconds after which it takes them although others make progress with lighter ones."""
SETTLING = 1.0
"""Seconds after a host was first seen in which others that start with it may join."""
STEP = 0.1
"""Part of a host's load that it gives away in one look."""
LEFT_OVER = 60.0
"""Seconds after which what waits does not hold up the rest: no host can take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """A living host, as the survey shows it."""

    node: str
    up: bool
    """Whether it takes observers; else it is draining."""
    capacity: int
    weight: int
    count: int
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits for a host, of one kind."""

    kind: str
    weight: int
    count: int
    age: float
    """Seconds that the oldest of them waits."""


@dataclass(slots=True)
class Looks:
    """What one host remembers of its surveys: its clock, not the age of rows.

    Rows that waited for an hour while no host was there were not left by a host.
    """

    _nodes: frozenset[str] = frozenset()
    _newest: float = 0.0
    _count: int = 0
    _since: float = 0.0
    left: bool = False
    """Whether what waits is left by those whose share it is, until nothing waits."""

    def add(self, survey: "Survey", kinds: frozenset[str], now: float) -> None:
        """Take in a survey; ``now``: monotonic seconds."""
        nodes = frozenset(one.node for one in survey.loads)
        if nodes - self._nodes:
            self._newest = now
        self._nodes = nodes
        count = sum(one.count for one in survey.waiting if one.kind in kinds)
        if not self._count or count < self._count or self.settling(survey, now):
            self._since = now
        self._count = count
        ages = [one.age for one in survey.waiting if one.kind in kinds]
        old = min(max(ages, default=0.0), now - self._newest) > TAKE_OLD_AFTER
        stands = now - self._since > TAKE_OVER_AFTER
        self.left = count > 0 and (self.left or old or stands)

    def took(self, count: int) -> None:
        """Leave out what this host took itself: it is no progress of others."""
        self._count = max(self._count - count, 0)

    def reset(self) -> None:
        """Begin to count anew."""
        self._count, self.left = 0, False

    def settling(self, survey: "Survey", now: float) -> bool:
        """Return whether hosts are starting, and most of the weight waits."""
        waiting = sum(one.weight for one in survey.waiting)
        held = sum(one.weight for one in survey.loads)
        return (
            now - self._newest < SETTLING
            and waiting > held
            and all(one.up for one in survey.loads)
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """How the load lies, as one host saw it."""

    loads: tuple[HostLoad, ...]
    waiting: tuple[Waiting, ...]

    @property
    def total(self) -> int:
        """The weight of all observers that run or wait."""
        held = sum(one.weight for one in self.loads)
        return held + sum(one.weight for one in self.waiting)

    def share(self, node: str) -> int:
        """Return the weight that a host should have, rounded up."""
        rooms = {one.node: one.capacity for one in self.loads if one.up}
        if node not in rooms:
            return 0
        fair = math.ceil(self.total * rooms[node] / sum(rooms.values()))
        return min(fair, rooms[node])

    def of(self, node: str) -> HostLoad | None:
        """Return the load of a host."""
        return next((one for one in self.loads if one.node == node), None)


class Surplus(NamedTuple):
    """What a host is to give away."""

    weight: int
    """In one look."""
    most: int
    """In all; one that is heavier than ``weight`` may go alone, up to that."""
    kinds: frozenset[str]


NOTHING = Surplus(0, 0, frozenset())


def room(survey: Survey, node: str, load: int, *, left: bool = False) -> int:
    """Return the weight that a host may take now, while it holds ``load``.

    ``left``: whether others leave what waits (``Looks``).
    """
    mine = survey.of(node)
    if mine is None or not mine.up:
        return 0
    free = mine.capacity - load
    if left or _alone(survey, mine):
        return max(free, 0)
    share = survey.share(node)
    most = share + max(1, math.floor(share * SLACK)) - load
    heaviest = max(
        (
            math.ceil(one.weight / one.count)
            for one in survey.waiting
            if one.kind in mine.kinds
        ),
        default=1,
    )
    if most > 0:
        most = max(most, heaviest)
    return max(min(free, most), 0)


def surplus(survey: Survey, node: str, load: int) -> Surplus:
    """Return the weight that a host is to give away now, and of which kinds."""
    mine = survey.of(node)
    waits = any(one.age <= LEFT_OVER for one in survey.waiting)
    if mine is None or not mine.up or waits:
        return NOTHING
    share = survey.share(node)
    if load <= share + max(1, math.floor(share * MARGIN)):
        return NOTHING
    below = [
        one
        for one in survey.loads
        if one.up and one.node != node and one.weight < survey.share(one.node)
    ]
    wanted = sum(survey.share(one.node) - one.weight for one in below)
    kinds = mine.kinds & frozenset().union(*(one.kinds for one in below))
    most = min(load - share, wanted)
    return Surplus(min(most, max(1, math.floor(load * STEP))), most, kinds)


def choose(held: Iterable[tuple[int, str, int]], surplus: Surplus) -> list[int]:
    """Return ids whose weights are no more than a surplus together.

    ``held``: id, kind and weight of each that may go, the first to go first. Where each
    is heavier than what goes in one look, one of them goes alone.
    """
    chosen = []
    alone: list[int] = []
    left = surplus.weight
    for one, kind, size in held:
        if kind not in surplus.kinds:
            continue
        if size <= left:
            chosen.append(one)
            left -= size
        elif size <= surplus.most and not alone:
            alone.append(one)
        if left <= 0:
            break
    return chosen or alone


def seen(  # the columns of survey_observers
    *,
    node: str | None,
    state: str,
    capacity: int,
    kinds: Iterable[str],
    age: float,
    **columns: int,
) -> HostLoad | Waiting:
    """Return the host, or what waits of one kind, that a row says."""
    names = frozenset(kinds)
    if node is None:
        [kind] = names
        return Waiting(kind=kind, age=age, **columns)
    up = state == "up"
    return HostLoad(node=node, up=up, capacity=capacity, kinds=names, **columns)


def survey_of(rows: Iterable[HostLoad | Waiting]) -> Survey:
    """Return how the load lies, of what was seen."""
    rows = [*rows]
    return Survey(
        tuple(one for one in rows if isinstance(one, HostLoad)),
        tuple(one for one in rows if isinstance(one, Waiting)),
    )


def _alone(survey: Survey, mine: HostLoad) -> bool:
    return not any(one.up and one.node != mine.node for one in survey.loads)
