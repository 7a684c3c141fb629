"""What a run of a task costs its database: learned by task and tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from throttle.model import Amount, Target

Key = TypeVar("Key", tuple[str, str], tuple[str, str, str])
MOST = 10_000
"""Kinds that are remembered; then those that ran longest ago are forgotten."""
MEMORY = 0.05
"""Weight of a new run after the first twenty, which weigh the same."""


@dataclass(slots=True, eq=False)
class Cost:
    """What is known of one kind of run."""

    operations: float
    seconds: float = 0.0
    duration: float = 0.0
    """From its start to its end, seconds."""
    runs: int = 0
    """That have been seen to end."""
    entered: int = 0
    """Admitted before the kind was known: they come in few at a time."""
    since: float = 0.0
    """When the first of them came, monotonic."""

    @property
    def amount(self) -> Amount:
        """What is expected of the next run."""
        return Amount(self.operations, self.seconds)

    def learn(self, amount: Amount, duration: float) -> None:
        """A run has ended that cost so much and took so long."""
        self.runs += 1
        weight = max(1 / self.runs, MEMORY)
        self.operations += weight * (amount.operations - self.operations)
        self.seconds += weight * (amount.seconds - self.seconds)
        self.duration += weight * (duration - self.duration)


class Costs:
    """The costs of all kinds of runs. A kind is a task of a tenant of a database."""

    def __init__(self, prior: float) -> None:
        self._prior = prior
        self._kinds: dict[tuple[str, str, str], Cost] = {}
        self._tasks: dict[tuple[str, str], Cost] = {}

    def expected(self, target: Target, task: str) -> Cost:
        """Return what is known best: of the tenant's runs, of the task's, or the prior.

        A tenant's own figures count from its third run on.
        """
        kind = self._kinds.get((target[0], task, target[1]))
        if kind is not None and kind.runs > 2:  # noqa: PLR2004 — as the line above says
            return kind
        known = self._tasks.get((target[0], task))
        if known is None:
            known = Cost(self._prior)
            self._remember(self._tasks, (target[0], task), known)
        return known

    def learn(self, target: Target, task: str, amount: Amount, duration: float) -> None:
        """A run has ended that cost so much."""
        kind = (target.database, task, target.tenant)
        self._learn(self._kinds, kind, amount, duration)
        self._learn(self._tasks, (target.database, task), amount, duration)

    def _learn(
        self, where: dict[Key, Cost], key: Key, amount: Amount, duration: float
    ) -> None:
        cost = where.pop(key, None)
        if cost is None:
            cost = Cost(self._prior)
        cost.learn(amount, duration)
        self._remember(where, key, cost)

    def _remember(self, where: dict[Key, Cost], key: Key, cost: Cost) -> None:
        where[key] = cost
        if len(where) > MOST:
            del where[next(iter(where))]
