"""What is to be seen in the tables, read a few times a second by one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

import psycopg

from celery_pecker.kernel.clock import to_us
from example_project.demo.report import Run
from example_project.demo.timeline import Timeline
from example_project.parts.control import Control
from example_project.store import Store

EVERY = 0.2
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A fault, and the seconds until a check noticed it (None: not yet)."""

    part: str
    call: int
    kind: str
    began_us: int
    over: bool
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The longest unchecked live call at one instant."""

    at_us: int
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that was seen last."""

    reachable: bool = False
    runs: tuple[Run, ...] = ()
    live: int = 0
    dropped: frozenset[int] = frozenset()
    silence: float = 0.0
    longest: float = 0.0
    checks: int = 0
    bad: int = 0
    missed: int = 0
    reactions: tuple[Reaction, ...] = ()
    samples: tuple[Sample, ...] = ()

    @property
    def slowest(self) -> float | None:
        """The slowest reaction so far."""
        noticed = [r.seconds for r in self.reactions if r.seconds is not None]
        return max(noticed, default=None)

    @property
    def noticed(self) -> int:
        """Faults that a check has noticed."""
        return sum(r.seconds is not None for r in self.reactions)

    @property
    def overlooked(self) -> int:
        """Faults that came and went and no check noticed."""
        return sum(r.seconds is None and r.over for r in self.reactions)


class Watch:
    """Keeps the last sight; a database that is away leaves the sight before."""

    def __init__(
        self,
        dsn: str,
        timeline: Timeline,
        control: Control,
        name_of: Callable[[int | None], str],
    ) -> None:
        self._store = Store(dsn, patience=0.0)
        self._timeline = timeline
        self._control = control
        self._name_of = name_of
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="watch")
        self.sight = Sight()

    def __enter__(self) -> Self:
        """The sight is renewed from now on."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """The sight stays as it is."""
        self._over.set()
        self._thread.join(5.0)

    def look(self) -> Sight:
        """Return what is to be seen now; psycopg's error if the database is away."""
        ((_, live, _, longest, checks, bad),) = self._store.rows("calls_now")
        ((missed,),) = self._store.rows("missed_slots")
        sample = Sample(at_us=self._timeline.now_us(), longest=longest)
        return replace(
            self.sight,
            reachable=True,
            runs=self._runs(),
            live=live,
            dropped=frozenset(self._control.dropped()),
            silence=self._control.silence(),
            longest=longest,
            checks=checks,
            bad=bad,
            missed=missed,
            reactions=self._reactions(),
            samples=(*self.sight.samples, sample),
        )

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            try:
                self.sight = self.look()
            except psycopg.Error:
                self.sight = replace(self.sight, reachable=False)
        self.close()

    def close(self) -> None:
        """Drop the calling thread's connection."""
        self._store.close()

    def _runs(self) -> tuple[Run, ...]:
        return tuple(
            Run(
                due_us=to_us(due_at),
                began_us=to_us(began_at),
                winner=self._name_of(pid),
            )
            for due_at, began_at, pid in self._store.rows("runs_since", since=LONG_AGO)
        )

    def _reactions(self) -> tuple[Reaction, ...]:
        return tuple(
            Reaction(
                part=part,
                call=call,
                kind=kind,
                began_us=to_us(began_at),
                over=ended_at is not None,
                seconds=seconds,
            )
            for _, part, call, kind, began_at, ended_at, seconds in self._store.rows(
                "reactions"
            )
        )
