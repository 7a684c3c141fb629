"""Who must run, and what was written: what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Write:
    """A guarded write that was committed."""

    name: str
    epoch: int
    at: float
    """Seconds, by the clock of the database."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A life that a host took, as the history has it."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """For how long an observer had to run."""

    since: float
    until: float
    """When its stop was asked for, or the end of the run."""


def overtaken(writes: Iterable[Write]) -> list[tuple[Write, Write]]:
    """Return writes of lives after another life had written."""
    return [
        (before, after)
        for mine in _by_name(writes).values()
        for before, after in pairwise(mine)
        if after.epoch < before.epoch
    ]


def gaps(
    writes: Iterable[Write], begun: Iterable[Begun], wanted: Mapping[str, Wanted]
) -> dict[str, float]:
    """Return the longest time for which each observer neither wrote nor began.

    A life that is hit before its first write was there: of an observer that is hit
    three times in a row nobody may expect that it writes between.
    """
    seen: dict[str, list[float]] = {}
    both = [(w.name, w.at) for w in writes] + [(b.name, b.at) for b in begun]
    for name, at in both:
        seen.setdefault(name, []).append(at)
    longest = {}
    for name, one in wanted.items():
        instants = [at for at in seen.get(name, []) if one.since < at < one.until]
        edges = [one.since, *sorted(instants), max(one.until, one.since)]
        longest[name] = max(b - a for a, b in pairwise(edges))
    return longest


def _by_name(writes: Iterable[Write]) -> dict[str, list[Write]]:
    found: dict[str, list[Write]] = {}
    for one in sorted(writes, key=lambda one: one.at):
        found.setdefault(one.name, []).append(one)
    return found
