"""Lives of observers, and the gaps between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Life(NamedTuple):
    """One life of the observer of a media server: its first look and its last."""

    server: int
    epoch: int
    pid: int
    """Of the host."""
    began: float
    ended: float


class Event(NamedTuple):
    """Something that was done to a host."""

    what: str
    pid: int
    at: float


class Gap(NamedTuple):
    """A time in which nobody looked at a media server."""

    server: int
    began: float
    ended: float
    what: str
    """What was done to the host that had the observer; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of observers, in seconds since the peers began to come."""

    lives: Sequence[Life] = ()
    events: Sequence[Event] = ()
    unwatched: int = 0
    """Media servers at which nobody looked any more at the end."""

    def gaps(self, what: str | None = None) -> list[Gap]:
        """Return the gaps that an event made; None: all."""
        gaps = [
            Gap(old.server, old.ended, new.began, self._cause(old, new))
            for old, new in _successions(self.lives)
        ]
        return [one for one in gaps if what is None or one.what == what]

    @property
    def overlaps(self) -> int:
        """How many lives had a look after the one that followed them had begun."""
        return sum(new.began < old.ended for old, new in _successions(self.lives))

    def _cause(self, old: Life, new: Life) -> str:
        for event in self.events:
            if event.pid == old.pid and event.at <= new.began:
                return event.what
        return ""


def watched_since(lives: Sequence[Life], at: float, gone: Sequence[int]) -> set[int]:
    """Return the servers with a look after an instant, by no host that is gone."""
    newest = {life.server: life for life in sorted(lives, key=lambda life: life.epoch)}
    return {
        server
        for server, life in newest.items()
        if life.ended > at and life.pid not in gone
    }


def longest(gaps: Sequence[Gap]) -> float:
    """Return the length of the longest gap in seconds; 0: there is none."""
    return max((gap.ended - gap.began for gap in gaps), default=0.0)


def _successions(lives: Sequence[Life]) -> Iterator[tuple[Life, Life]]:
    """Give each life with the one that followed it."""
    ordered = sorted(lives, key=lambda life: (life.server, life.epoch))
    for old, new in pairwise(ordered):
        if old.server == new.server:
            yield old, new
