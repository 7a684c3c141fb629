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


def gaps(writes: Iterable[Write], wanted: Mapping[str, Wanted]) -> dict[str, float]:
    """Return the longest time for which each observer wrote nothing."""
    written = _by_name(writes)
    longest = {}
    for name, one in wanted.items():
        instants = [w.at for w in written.get(name, []) if one.since < w.at < one.until]
        edges = [one.since, *instants, max(one.until, one.since)]
        longest[name] = max(b - a for a, b in pairwise(edges))
    return longest


def _by_name(writes: Iterable[Write]) -> dict[str, list[Write]]:
    found: dict[str, list[Write]] = {}
    for one in sorted(writes, key=lambda one: one.at):
        found.setdefault(one.name, []).append(one)
    return found
