"""How all shards of a job stand: a letter each, in lines of neighbours. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from celery_sharding.model import Code

GRADES = (
    Code.SUCCEEDED,
    Code.WAITING,
    Code.READY,
    Code.PUSHED,
    Code.RUNNING,
    Code.STALLED,
    Code.UNTAKEN,
    Code.TIMED_OUT,
    Code.FAILED,
    Code.DIED,
)
"""Codes, the one in need of a look last: where neighbours share a place in a grid, it
shows the last of theirs. In a grid each is a letter, the first "a": `read_grid` of
sql/grid.sql writes them."""
LETTERS: Mapping[str, Code] = {
    chr(ord("a") + place): code for place, code in enumerate(GRADES)
}
CELLS = 20_000
"""Places of a grid, at most: beyond it neighbours share one."""
_RUN = re.compile(r"(.)\1*")


class Line(NamedTuple):
    """Neighbouring shards of a layer, a letter of `LETTERS` for each place."""

    layer: int
    first: int
    """The number of its first shard."""
    letters: str

    def runs(self) -> Iterator[tuple[Code, int]]:
        """Yield each code, and how many neighbours in a row have it."""
        for run in _RUN.finditer(self.letters):
            yield LETTERS[run[1]], run.end() - run.start()

    @property
    def compact(self) -> str:
        """Return the letters, each with how many there are in a row: "a500bc3"."""
        return _RUN.sub(_counted, self.letters)


def _counted(run: re.Match[str]) -> str:
    length = run.end() - run.start()
    return run[1] if length == 1 else f"{run[1]}{length}"


class Grid(NamedTuple):
    """How all shards of a job stand."""

    per: int
    """Neighbours that share a place: 1, except where there are very many shards."""
    lines: tuple[Line, ...]
    counts: Mapping[Code, int]
    """Shards of each code that there is."""


class Part(NamedTuple):
    """Some shards of a layer, as they are read."""

    layer: int
    first: int
    """The number of its first shard."""
    letters: str
    numbers: Sequence[int] | None = None
    """Theirs, where they are no unbroken line."""


def grid_of(parts: Iterable[Part], *, most: int = CELLS) -> Grid:
    """Return the grid of shards that were read in parts, in at most so many places."""
    lines = [*_joined(parts)]
    counts = {
        code: number
        for letter, code in LETTERS.items()
        if (number := sum(line.letters.count(letter) for line in lines))
    }
    per = max(-(-sum(counts.values()) // most), 1)
    if per > 1:
        lines = [line._replace(letters=_shared(line.letters, per)) for line in lines]
    return Grid(per, tuple(lines), counts)


def _joined(parts: Iterable[Part]) -> Iterator[Line]:
    """Yield runs of equal codes; a part begins where a line was cut, or broke."""
    layer, first, pieces, following = -1, 0, list[str](), -1
    for of, start, letters in _unbroken(parts):
        if of != layer or start != following:
            if pieces:
                yield Line(layer, first, "".join(pieces))
            layer, first, pieces = of, start, []
        pieces.append(letters)
        following = start + len(letters)
    if pieces:
        yield Line(layer, first, "".join(pieces))


def _unbroken(parts: Iterable[Part]) -> Iterator[tuple[int, int, str]]:
    for layer, first, letters, numbers in parts:
        if numbers is None:
            yield layer, first, letters
        else:
            for number, letter in zip(numbers, letters, strict=True):
                yield layer, number, letter


def _shared(letters: str, per: int) -> str:
    starts = range(0, len(letters), per)
    return "".join(max(letters[start : start + per]) for start in starts)
