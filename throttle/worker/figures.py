"""Figures of limits in the history of celery_pecker, for apps that have its tables.

Each worker counts what it sees and writes it once a minute, so that sums are right
whoever comes, goes or runs another version. What all workers hear alike counts for as
many as there are (`celery_pecker.kernel.figures`). One of them, elected in the store,
folds and purges rows: an app need not have a scheduler that does.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any

from celery_pecker.kernel.clock import SYSTEM, Monotonic, monotonic, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.figure_tables import EVERY, FiguresWriter
from celery_pecker.kernel.figures import (
    ADMITTED,
    ALL_LIMITS,
    HELD,
    IN_FORCE,
    KNOWN,
    PEAK,
    TRAFFIC,
    Figures,
)
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.settings import Settings as Pecker
from throttle.errors import ThrottleError
from throttle.exchange import Snapshot
from throttle.model import STALE, Holding, Store
from throttle.settings import Settings

Cell = defaultdict[str, float]
_cell = partial(defaultdict[str, float], float)

FOLDER = " "
"""What is elected for, in place of a database: none has this name."""
MS = 1_000


@dataclass(eq=False, repr=False)
class LimitFigures:
    """What this worker saw of its limits since the last look.

    A killed worker loses a minute. While the store does not answer traffic is not
    known, nor is it told what others hold: those minutes are a gap.
    """

    pecker: InitVar[Pecker]
    settings: Settings
    store: Store
    clock: Monotonic = monotonic

    def __post_init__(self, pecker: Pecker) -> None:
        self._noted = self.clock()
        self._change = threading.Lock()
        self._cells: defaultdict[str, Cell] = defaultdict(_cell)
        self._admitted: Counter[str] = Counter()
        """Tasks by database, since the worker's start, that are counted."""
        self.holder = new_id()
        self._database = Database.of(pecker, role="figures")
        abandon_in_forks(self._database)
        self.writer = FiguresWriter(
            Figures(),
            self._database,
            self.holder,
            clock=SYSTEM,
            folds=self.elected,
            look=self._look,
        )
        self.loop = Loop(self._step, name="throttle-figures", leave=self._leave)

    def note(self, holdings: Mapping[str, Holding], snapshot: Snapshot) -> None:
        """Count what is so since the last call, ten times a second: additions only."""
        now = self.clock()
        passed, self._noted = min(now - self._noted, STALE) * MS, now
        fresh = snapshot.fresh(now)
        with self._change:
            for name, holding in holdings.items():
                cell, seen = self._cells[name], snapshot.seen(name)
                cell[ADMITTED] += holding.admitted - self._admitted[name]
                self._admitted[name] = holding.admitted
                if seen is None or not fresh:
                    continue
                traffic = seen.traffic[self.settings.estimator].operations
                limit = self.settings.limits[name].operations * seen.factor
                part = passed / max(seen.holders, 1)
                cell[KNOWN] += part
                cell[HELD] += holding.held * passed
                cell[TRAFFIC] += traffic * part
                cell[IN_FORCE] += limit * part
                cell[PEAK] = max(cell[PEAK], traffic)

    def _look(self) -> None:
        """Add what was noted to the minute of now, by the database's clock."""
        [(at_us,)] = self._database.run("read_clock", now=None)
        with self._change:
            cells, self._cells = self._cells, defaultdict(_cell)
        total = _cell()
        for name, cell in cells.items():
            for key, count in cell.items():
                self._add(f"limit {name}", at_us, key, count)
                # They are sums, but of the time that is known, and of no maximum
                total[key] = (
                    max(total[key], count) if key == KNOWN else total[key] + count
                )
        total.pop(PEAK, None)
        for key, count in total.items():
            self._add(ALL_LIMITS, at_us, key, count)

    def _add(self, subject: str, at_us: int, key: str, count: float) -> None:
        if whole := round(count):
            self.writer.figures.add(subject, at_us, key, whole)

    def elected(self) -> bool:
        """Return whether this worker is the one that folds."""
        with suppress(ThrottleError):
            return self.store.elect(FOLDER, self.holder.hex, EVERY)
        return False

    def _step(self) -> float:
        rest = self.writer.step()
        self._database.close()  # it is needed once a minute
        return rest

    def _leave(self) -> None:
        self.writer.leave()
        self._database.close()


def figures_of(app: Any, settings: Settings, store: Store) -> LimitFigures | None:
    """Return what writes an app's figures; None: it has no tables, or no history."""
    with suppress(PeckerError):  # its schedulers say what is wrong
        pecker = Pecker.read(app.conf, main=app.main)
        return LimitFigures(pecker, settings, store) if pecker.history else None
    return None
