"""What is read of jobs, for people and for Post: rows, and pages of them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from celery_sharding.codec import decode
from celery_sharding.model import (
    Code,
    ItemError,
    LayerProgress,
    Outcome,
    Progress,
    Stage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job at one moment; of a follower all but its names and end are its leader's."""

    now: datetime
    job: int
    leading: int
    """The job whose shards, results and errors are its own: itself, or its leader."""
    task_id: str
    leader: str | None
    """The task id of the one with the same key that it follows."""
    task: str
    key: str | None
    stage: Stage
    outcome: Outcome | None
    run: int
    paused: bool
    concurrency: int
    layer: int
    layers: int
    total: int
    done: int
    failed: int
    options: Mapping[str, Any]
    error: Mapping[str, Any] | None
    submitted_at: datetime
    planned_at: datetime | None
    started_at: datetime | None
    """When its first layer began."""
    closed_at: datetime | None
    """When the layer that closed last did."""
    decided_at: datetime | None
    ended_at: datetime | None
    deadline_at: datetime | None
    held: int
    """Its tickets that are held: shards run under each, one at a time."""
    executors: int
    """Live workers that run shards, of whatever job."""
    holder: str | None
    """The process that plans or posts it, or did last."""
    attempts: int

    @property
    def elapsed(self) -> float:
        """Seconds from its submission to its end, or until now."""
        till = self.decided_at or self.now
        return max((till - self.submitted_at).total_seconds(), 0.0)

    @property
    def running(self) -> float:
        """Seconds from when its first item could begin to when its last had ended."""
        if self.started_at is None:
            return 0.0
        past = self.stage.past_items
        till = (self.closed_at or self.decided_at) if past else None
        return max(((till or self.now) - self.started_at).total_seconds(), 0.0)

    def progress(self, layers: tuple[LayerProgress, ...] = ()) -> Progress:
        """Return how far it is; the rate is the mean since its first item began."""
        ended = self.done + self.failed
        rate = ended / self.running if self.running > 0 else 0.0
        left = max(self.total - ended, 0)
        eta = None
        if self.stage is Stage.SHARDING and rate > 0 and not self.paused:
            eta = timedelta(seconds=min(left / rate, 1e9))
        return Progress(
            stage=self.stage,
            outcome=self.outcome,
            paused=self.paused,
            total=self.total,
            done=self.done,
            failed=self.failed,
            layer=self.layers if self.stage.past_items else self.layer,
            layers=layers,
            rate=rate,
            eta=eta,
            elapsed=self.elapsed,
        )


class ShardRow(NamedTuple):
    """A shard at one moment."""

    shard: int
    layer: int
    code: Code
    """Derived from its status, its job, its ticket and the time."""
    status: int
    """As it is stored."""
    origin: int
    items: int
    cursor: int
    done: int
    failed: int
    deaths: int
    attempt: int
    hostname: str | None
    """Of the worker that holds it."""
    owner: str | None
    claimed_at: datetime | None
    ended_at: datetime | None
    not_before: datetime | None
    spent: float | None
    """Seconds since it was claimed, until it ended or now."""


class ErrorRow(NamedTuple):
    """A failed item; a page ends at ``(origin, place)``."""

    origin: int
    place: int
    error: ItemError


class ResultRow(NamedTuple):
    """What a shard came to in one write; a page ends at ``(shard, at)``."""

    shard: int
    at: int
    """Its order; -1: what the processor returned at the shard's end."""
    body: bytes

    @property
    def values(self) -> list[Any]:
        """What it came to, decoded at each look: a page of them may be a large one."""
        value = decode(self.body)
        return value if self.at >= 0 else [value]


class Totals(NamedTuple):
    """The figures of all jobs at one moment."""

    now: datetime
    jobs: int
    """That have not ended."""
    sharding: int
    """Of these, whose shards run or could."""
    paused: int
    held: int
    """Tickets that are held: shards run under each, one at a time."""
    executors: int
    slots: int
    """Of the live workers that run shards."""
    succeeded: int
    """Within a day."""
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """How all jobs stand at one moment, for monitoring; durations in seconds."""

    stages: Mapping[str, int]
    """Open jobs by their stage."""
    outcomes: Mapping[str, int]
    """Jobs that ended within a day."""
    items: Mapping[str, int]
    """Of jobs whose shards run or wait: all, and those that have ended."""
    tickets: Mapping[str, int]
    paused: int
    oldest: float
    overdue: int
    overdue_seconds: float
    executors: int
    slots: int


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
