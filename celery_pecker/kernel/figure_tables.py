"""Write, fold and read figures (figures.py), off the path of all work.

Nothing depends on them: what cannot be written is logged once and tried again, for ten
minutes; the process goes on as ever.
"""

import json
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from celery_pecker.kernel.clock import Clock, from_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.figures import (
    KEPT,
    MINUTE_US,
    OPEN,
    STEPS,
    Cell,
    Figures,
    FiguresRow,
    merged,
    part_of,
    read,
    written,
)

logger = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two looks for what came, went or is too old."""
LOOK_INTERVAL = 5.0
"""Seconds between two looks for a minute that is over."""
MOST = 400
"""Points of a chart."""
FOLDING = 1.0
"""Seconds between two parts that are folded: some milliseconds of work."""


@dataclass
class FiguresWriter:
    """Writes what a process counts, once a minute."""

    figures: Figures
    database: Database
    """Its own connection."""
    holder: uuid.UUID
    """The name of this process life."""
    _: KW_ONLY
    clock: Clock
    folds: Callable[[], bool] = lambda: False
    """Whether it folds and purges rows, and marks what came and went."""
    version: str = ""
    look: Callable[[], None] = lambda: None
    """Called once a minute: it may have more to count."""
    _failing: bool = False

    def __post_init__(self) -> None:
        self._next = self.clock.monotonic() + LOOK_INTERVAL
        self._look_at = self._upkeep_at = self._fold_at = self._next

    def step(self) -> float:
        """Write and fold what is due; return seconds until the next step."""
        now = self.clock.monotonic()
        if now < self._next:
            return self._next - now
        self._next = now + LOOK_INTERVAL
        try:
            if now >= self._look_at:
                self._look_at = now + EVERY
                self.look()
            self._write(self.figures.ready(now))
            if self.folds():
                self._keep_up(now)
        except PeckerError as error:
            self._next = now + EVERY
            self._complain(error)
        else:
            self._failing = False
        return self._next - now

    def leave(self) -> None:
        """Write what there is: the process ends."""
        try:
            self.look()
            self._write(self.figures.ready(self.clock.monotonic(), leaving=True))
        except PeckerError as error:
            self._complain(error)

    def _complain(self, error: PeckerError) -> None:
        if not self._failing:
            self._failing = True
            logger.warning("pecker: figures of the history are not written: %s", error)

    def _write(self, rows: Sequence[FiguresRow]) -> None:
        write(self.database, self.holder, rows)
        self.figures.wrote(rows)

    def _keep_up(self, now: float) -> None:
        if now >= self._upkeep_at:
            self._upkeep_at = now + EVERY
            self.database.change("write_marks", now=None, version=self.version)
            self.database.change(
                "purge_figures",
                now=None,
                steps=[*STEPS],
                intos=[*STEPS[1:], None],
                kept=[KEPT[step] for step in STEPS],
            )
        if now >= self._fold_at:
            self._fold_at = now + EVERY
            if self.fold():
                self._fold_at = self._next = now + FOLDING

    def fold(self) -> bool:
        """Fold one part of a span; return whether there was one."""
        for nth, (step, into) in enumerate(pairwise(STEPS), 1):
            rows = self.database.run(
                "read_unfolded_figures",
                now=None,
                step=step,
                into=into,
                after=nth * OPEN,  # hours follow their quarters
                holder=self.holder,
            )
            if not rows:
                continue
            cells: defaultdict[str, list[Cell]] = defaultdict(list)
            for _, _, figures in rows:
                for subject, cell in json.loads(figures).items():
                    cells[subject].append(read(cell))
            folded = {name: written(merged(some)) for name, some in cells.items()}
            part, at, _ = rows[0]
            self.database.change(
                "fold_figures", into=into, part=part, at=at, figures=json.dumps(folded)
            )
            return True
        return False


def write(database: Database, holder: uuid.UUID, rows: Sequence[FiguresRow]) -> None:
    """Write rows under a name, each whole: the same again changes nothing."""
    if rows:
        database.change(
            "write_figures",
            now=None,
            holder=holder,
            parts=[row.part for row in rows],
            ats=[from_us(row.at_us) for row in rows],
            figures=[json.dumps(row.figures) for row in rows],
        )


class MarkRow(NamedTuple):
    """Something that happened to all of it: a deploy, an alarm, an edit."""

    at_us: int
    kind: str
    what: str


def points(
    database: Database, subject: str, since_us: int, until_us: int, now_us: int
) -> tuple[int, dict[int, Cell]]:
    """Return the minutes of a point, and the cells of a subject by their instants.

    A chart has MOST points at most: rows next to each other are one, where there are
    more. Percentiles of each point are what a chart costs.
    """
    age = timedelta(microseconds=now_us - since_us)
    within = [step for step in STEPS if age <= timedelta(minutes=KEPT[step])]
    kept = within[0] if within else STEPS[-1]
    step = kept * -((since_us - until_us) // (kept * MINUTE_US * MOST))
    wide = step * MINUTE_US
    rows = database.run(
        "read_figures",
        step=kept,
        wide=step,
        part=part_of(subject),
        subject=subject,
        since=from_us(since_us // wide * wide),
        until=from_us(until_us),
    )
    return step, {at_us: read(texts) for at_us, texts in rows}


def marks(database: Database, since_us: int, until_us: int) -> Sequence[MarkRow]:
    """Return what happened within a time, the latest first; 200 at most."""
    between = {"since": from_us(since_us), "until": from_us(until_us)}
    return database.read(MarkRow, "read_marks", **between)
