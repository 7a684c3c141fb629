"""What a run of a task costs its database: learned by task and tenant."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from throttle.admission.flow import spread_of
from throttle.model import TICK, Amount, Target

Key = TypeVar("Key", tuple[str, str], tuple[str, str, str])
End = tuple[Amount, float | None]
"""What a run cost, and how long it took, seconds; None: not known."""
PRIOR = 10.0
"""Operations that a task is thought to cost before one of its kind has run: it matters
for the first runs only, and then for no longer than one takes."""
MOST = 10_000
"""Kinds that are remembered; then those that ran longest ago are forgotten."""
MEMORY = 0.05
"""Weight of a new run after the first twenty, which weigh the same."""
KNOWN = 8
"""Runs that have to end before a kind may come in as it pleases."""
OWN = 3
"""Runs of a tenant after which its own figures count, not all tenants'."""


@dataclass(slots=True, eq=False)
class Cost:
    """What is known of one kind of run: means, and variances."""

    operations: float
    seconds: float = 0.0
    operations_variance: float = 0.0
    seconds_variance: float = 0.0
    duration: float = 0.0
    """From its start to its end, seconds."""
    spread: int = 0
    """Where that stands in `flow.SPREADS`."""
    runs: int = 0
    """That have been seen to end."""
    inside: int = 0
    """Under way, of those that came while the kind was not known."""
    since: float = 0.0
    """When the first of them came, monotonic."""

    @property
    def amount(self) -> Amount:
        """Return what is expected of the next run."""
        return Amount(self.operations, self.seconds)

    def learn(self, ends: Iterable[End]) -> None:
        """Learn from runs what each cost, and how long it took (None: not known).

        In local names, as a worker learns of a thousand a second.
        """
        runs, duration = self.runs, self.duration
        operations, seconds = self.operations, self.seconds
        operations_variance, seconds_variance = (
            self.operations_variance,
            self.seconds_variance,
        )
        for amount, lasted in ends:
            runs += 1
            weight = 1 / runs if runs * MEMORY < 1 else MEMORY
            off = amount[0] - operations
            operations += weight * off
            # Of the first run there is a mean, and no variance
            off = off * off if runs > 1 else 0.0
            operations_variance += weight * (off - operations_variance)
            off = amount[1] - seconds
            seconds += weight * off
            off = off * off if runs > 1 else 0.0
            seconds_variance += weight * (off - seconds_variance)
            if lasted is not None:
                duration += weight * (lasted - duration)
        self.runs, self.duration, self.spread = runs, duration, spread_of(duration)
        self.operations, self.seconds = operations, seconds
        self.operations_variance = operations_variance
        self.seconds_variance = seconds_variance

    def enter(self, now: float) -> None:
        """Note a run that came in while the kind was not known."""
        if not self.since:
            self.since = now
        self.inside += 1

    def crowded(self, now: float) -> bool:
        """Return whether too many run whose cost is not known yet.

        One at first; three for each that has ended; and twice as many every half
        second, for runs that take long or are not metered.
        """
        doublings = min(2 * (now - self.since), 40.0) if self.since else 0.0
        return self.inside >= max(1 + 2 * self.runs, 2**doublings)


class Costs:
    """The costs of all kinds of runs. A kind is a task of a tenant of a database."""

    def __init__(self, prior: float) -> None:
        self._prior = prior
        self._kinds: OrderedDict[tuple[str, str, str], Cost] = OrderedDict()
        self._tasks: OrderedDict[tuple[str, str], Cost] = OrderedDict()

    def expected(self, target: Target, task: str) -> Cost:
        """Return what is known best: of the tenant's runs, of the task's, or the prior.

        A tenant's own figures count from its third run on.
        """
        kind = self._kinds.get((target[0], task, target[1]))
        if kind is not None and kind.runs >= OWN:
            return kind
        known = self._tasks.get((target[0], task))
        if known is None:
            known = Cost(self._prior)
            self._remember(self._tasks, (target[0], task), known)
        return known

    def known(self, database: str) -> dict[str, Cost]:
        """Return what its tasks cost, of those that are known well enough."""
        return {
            task: cost
            for (name, task), cost in self._tasks.items()
            if name == database and cost.runs >= KNOWN
        }

    def recall(self, database: str, known: Mapping[str, Cost]) -> None:
        """Take from others the costs of tasks that have not run in this process."""
        for task, cost in known.items():
            mine = self._tasks.get((database, task))
            if mine is None or not mine.runs:
                self._remember(self._tasks, (database, task), cost)

    def learn(self, target: Target, task: str, ends: Sequence[End]) -> None:
        """Learn from runs of one kind that have ended."""
        kind = (target.database, task, target.tenant)
        self._learn(self._kinds, kind, ends)
        self._learn(self._tasks, (target.database, task), ends)

    def _learn(
        self,
        where: OrderedDict[Key, Cost],
        key: Key,
        ends: Sequence[End],
    ) -> None:
        cost = where.pop(key, None)
        if cost is None:
            cost = Cost(self._prior)
        cost.learn(ends)
        self._remember(where, key, cost)

    def _remember(self, where: OrderedDict[Key, Cost], key: Key, cost: Cost) -> None:
        where[key] = cost
        if len(where) > MOST:
            where.popitem(last=False)


# What outlives the worker that learned it: by task, not by tenant, for those are too
# many, and a tenant's third run tells. A worker that starts knows at once what a run
# costs of the tasks that others have run.

MOST_KEPT = 1000
"""Tasks of a database whose costs are kept."""
RUNS = round(1 / MEMORY)
"""As many runs an older worker's word weighs at most: new ones soon count for more."""
LARGEST = 1e12
"""Of a figure that is kept."""
FIELDS = (
    "operations",
    "seconds",
    "operations_variance",
    "seconds_variance",
    "duration",
)


def written(known: Mapping[str, Cost], before: str = "") -> str:
    """Return what tasks cost, as text, over what others had written `before`."""
    kept = {**read(before), **{name: known[name] for name in list(known)[-MOST_KEPT:]}}
    return json.dumps(
        {
            name: [round(getattr(kept[name], one), 9) for one in FIELDS]
            + [min(kept[name].runs, RUNS)]
            for name in list(kept)[-MOST_KEPT:]
        }
    )


def read(text: str) -> dict[str, Cost]:
    """Return what is written; what makes no sense is left out."""
    try:
        parsed = json.loads(text or "{}")
        entries = list(parsed.items())[-MOST_KEPT:]
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {name: cost for name, one in entries if (cost := _cost(one)) is not None}


def _cost(value: object) -> Cost | None:
    if not isinstance(value, list) or len(value) != len(FIELDS) + 1:
        return None
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (int, float)):
            return None
        if not isfinite(one) or not 0 <= one <= LARGEST:
            return None
    *figures, runs = value
    cost = Cost(*figures)  # in the order of `FIELDS`
    cost.runs, cost.spread = min(int(runs), RUNS), spread_of(cost.duration)
    return cost


TAIL = 0.25
"""Part of its usual duration that a run is expected to last at least, however old."""
PRIOR = 0.5
"""Usual durations that what is usual weighs, against what was seen of this very run."""
UNDER_WAY = 0.1
"""Of the variance, what is left once a run has been seen: its own rate is known."""


class Expected:
    """What is expected of each run of a kind that comes in now. It does not change.

    Some runs may be let in ahead, and their cost taken: each of them takes a pass then.
    Runs that come in share it until a reading tells of them: nothing is made for each.
    """

    __slots__ = (
        "ahead",
        "cost",
        "parts",
        "passes",
        "spread",
        "target",
        "task",
        "until",
        "young",
    )

    def __init__(self, target: Target, task: str, cost: Cost) -> None:
        self.target = target
        self.task = task
        self.cost = cost
        self.parts = (
            (cost.operations, cost.operations_variance),
            (cost.seconds, cost.seconds_variance),
        )
        """Means and variances, of operations and of seconds."""
        self.spread = cost.spread
        self.young = cost.runs < KNOWN
        """The kind is not known yet."""
        self.ahead = 0
        """Runs that were let in ahead."""
        self.passes = 0
        """Of them, those that have not come yet."""
        self.until = 0.0
        """When what is left of them is void, monotonic."""


class UnderWay:
    """A run of a reading."""

    __slots__ = (
        "kind",
        "parts",
        "spread",
    )

    def __init__(
        self, kind: Expected, duration: float, spent: Amount, elapsed: float
    ) -> None:
        self.kind = kind
        means, lasts = left(kind, duration, spent, elapsed)
        self.parts = tuple(
            (mean, variance * UNDER_WAY)
            for mean, (_, variance) in zip(means, kind.parts, strict=True)
        )
        """Means and variances of what is still expected of it."""
        self.spread = spread_of(lasts)


def left(
    kind: Expected, usual: float, spent: Amount, elapsed: float
) -> tuple[list[float], float]:
    """Return what is still expected: operations and seconds, and for how long.

    Of a long run its own rate says more than what others cost, the more the older it
    is: one that is twice as large as usual is known as such after a tick.
    """
    parts = list(zip(spent, kind.parts, strict=False))
    if usual <= 2 * TICK or elapsed <= TICK:
        return [max(mean - done, 0.0) for done, (mean, _) in parts], usual - elapsed
    lasts = max(usual - elapsed, TAIL * usual)
    rest = lasts / (elapsed + PRIOR * usual)
    return [(done + PRIOR * mean) * rest for done, (mean, _) in parts], lasts
