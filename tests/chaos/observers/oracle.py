"""Who must run, and what was written: what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


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


class Span(NamedTuple):
    """From when until when."""

    since: float
    until: float


class Gap(NamedTuple):
    """For how long nobody saw an observer, while a host could run it."""

    seconds: float
    since: float
    until: float


def without(spans: Iterable[Span], out: Iterable[Span]) -> list[Span]:
    """Return spans without those parts of them that are out."""
    left = [*spans]
    for since, until in out:
        cut = []
        for one in left:
            cut.append(Span(one.since, min(one.until, since)))
            cut.append(Span(max(one.since, until), one.until))
        left = [one for one in cut if one.since < one.until]
    return left


def dark(lived: Iterable[Span]) -> list[Span]:
    """Return when no host took anything, of the spans in which each of them might."""
    found, until = [], float("inf")
    for since, last in sorted(lived):
        if since > until:
            found.append(Span(until, since))
        until = last if until == float("inf") else max(until, last)
    return found


def gaps(
    seen: Mapping[str, Iterable[float]],
    wanted: Mapping[str, Wanted],
    dark: Sequence[Span] = (),
) -> dict[str, Gap]:
    """Return the longest gap between the instants in which each observer was seen.

    A life that is hit before its first sign was there: of an observer that is hit
    three times in a row nobody may expect one between. Time in which no host lived, or
    all that lived were draining, does not count: after a blackout the machine needs its
    time to start them.
    """
    longest = {}
    for name, one in wanted.items():
        instants = [at for at in seen.get(name, ()) if one.since < at < one.until]
        edges = [one.since, *sorted(instants), max(one.until, one.since)]
        longest[name] = max(Gap(_lit(a, b, dark), a, b) for a, b in pairwise(edges))
    return longest


def _lit(since: float, until: float, dark: Sequence[Span]) -> float:
    out = sum(max(min(b, until) - max(a, since), 0.0) for a, b in dark)
    return until - since - out


def _by_name(writes: Iterable[Write]) -> dict[str, list[Write]]:
    found: dict[str, list[Write]] = {}
    for one in sorted(writes, key=lambda one: one.at):
        found.setdefault(one.name, []).append(one)
    return found
