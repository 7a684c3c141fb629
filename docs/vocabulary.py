# ruff: noqa: INP001  # a script beside the pages
"""Print the words of views into reference/vocabulary.md: python docs/vocabulary.py.

A view describes what people see once, for commands, pages, JSON and metrics, so that
the page cannot say anything else than they do; a test compares the two.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from celery_pecker.surfaces.findings.view import CAUSES, NOW
from celery_pecker.surfaces.views.alarms import ALARMS
from celery_pecker.surfaces.views.audit import AUDIT
from celery_pecker.surfaces.views.history import HISTORY
from celery_pecker.surfaces.views.model import Column, Figure, Measure, Table
from celery_pecker.surfaces.views.observers import OBSERVERS
from celery_pecker.surfaces.views.outbox import OUTBOX
from celery_pecker.surfaces.views.schedules import CHANGES, SCHEDULES, STORED
from celery_sharding.views import JOB, JOBS
from throttle.metrics import MEASURES as THROTTLES
from throttle.views import DATABASES, TENANTS, WORKERS
from throttle.views import FIGURES as THROTTLE

PAGE = Path(__file__).parent / "reference" / "vocabulary.md"
MARK = "<!-- printed by docs/vocabulary.py: change the views -->\n"
PRINTED = re.compile(re.escape(MARK) + r".*?(?=\n## Forms\n)", re.DOTALL)
Part = tuple[str, Sequence[Figure], Sequence[Table], Sequence[Measure]]
PARTS: Sequence[Part] = (
    (NOW.title, (), (CAUSES,), ()),
    (SCHEDULES.title, SCHEDULES.figures, SCHEDULES.tables, SCHEDULES.measures),
    ("Stored schedules", (), (STORED, CHANGES), ()),
    *(
        (one.title, one.figures, one.tables, one.measures)
        for one in (OUTBOX, OBSERVERS, ALARMS, AUDIT, HISTORY, JOBS, JOB)
    ),
    ("Throttled databases", THROTTLE, (DATABASES, WORKERS, TENANTS), THROTTLES),
)
KINDS = {
    "name": "a name",
    "state": "a state",
    "error": "an error",
    "instant": "an instant",
    "duration": "a length of time",
    "count": "a number",
    "rate": "so many a second",
    "figure": "a number",
    "part": "a part of a whole",
}


def row(column: Column) -> str:
    """Return what a column is called on pages and in commands, and in JSON."""
    key = column.key.rpartition(".")[2]
    key = "" if column.value is not None else f"`{key}`"
    return f"| *{column.label}* | {key} | {KINDS.get(column.kind, '')} |"


def words(table: Table) -> Iterator[str]:
    """Yield the columns of a table, its states, and what may be done to a row."""
    yield f"### {table.title}\n"
    notes = [Column(key, key) for one in table.columns for key in one.notes]
    known = {one.key: one for one in (*notes, *table.columns)}
    yield "\n".join(
        ["| word | in JSON | |", "|---|---|---|", *map(row, known.values())]
    )
    if table.states:
        yield f"\nStates: {listed(str(state) for state in table.states)}."
    if table.acts:
        yield f"\nActs: {', '.join(f'*{act.label}*' for act in table.acts)}."
    yield ""


def listed(names: Iterator[str]) -> str:
    """Return names of the code."""
    return ", ".join(f"`{name}`" for name in names)


def metrics(measures: Sequence[Measure]) -> str:
    """Return the names under which measures are read."""
    package = "throttle" if measures is THROTTLES else "celery_pecker"
    if measures is JOBS.measures:
        package = "celery_sharding"
    return listed(
        f"{package}_{one.name}{'_total' if one.counter else ''}" for one in measures
    )


def printed() -> str:
    """Return the words of all views."""
    parts = [MARK]
    for title, figures, tables, measures in PARTS:
        parts.append(f"## {title}\n")
        if figures:
            parts.append(
                f"Figures: {', '.join(f'*{one.label}*' for one in figures)}.\n"
            )
        for table in tables:
            parts += words(table)
        if measures:
            parts.append(f"Metrics: {metrics(measures)}.\n")
    return "\n".join(parts)


def page() -> str:
    """Return the page with the words as the views say now."""
    return PRINTED.sub(lambda _: printed(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
