"""What pages make of the changes of a schedule, and how often figures are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.last_read import LastRead
from celery_pecker.schedules import Change
from celery_pecker.surfaces.flower.rendering import LONGEST, rows_of
from celery_pecker.surfaces.flower.schedules import SPARED
from celery_pecker.surfaces.views.schedules import CHANGES, compared

AT = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


def change(number: int, words: str, definition: dict[str, Any] | None) -> Change:
    """Return a change of a schedule."""
    return Change(
        id=number,
        name="bills",
        version=number,
        change=words,
        changed_at=AT,
        changed_by="anna",
        definition=definition,
    )


def test_a_change_is_compared_with_the_last_that_had_a_definition() -> None:
    """A pause between two versions has none, and the oldest that is kept no older."""
    rows = [
        change(4, "changed", {"task": "b", "once": True}),
        change(3, "paused", None),
        change(2, "changed", {"task": "a", "args": [1]}),
        change(1, "created", {"task": "a", "args": []}),
    ]
    assert [
        [(one.field, one.before, one.after) for one in row.differences]
        for row in compared(rows)
    ] == [
        [("task", "a", "b"), ("once", "", "true"), ("args", "[1]", "")],
        [],
        [("args", "", "[1]")],
        [("task", "", "a")],
    ]


def test_a_long_value_is_cut() -> None:
    """A browser gets no megabytes of arguments with each look."""
    rows = compared([change(1, "created", {"args": ["x" * 10_000]})])
    [found] = rows_of(CHANGES, rows)
    assert len(found["what"]) == LONGEST


@dataclass
class Server:
    """A clock, and figures that take a second to count."""

    now: float = 100.0
    readings: int = 0

    def monotonic(self) -> float:
        """Return what the clock says."""
        return self.now

    def totals(self) -> int:
        """Count for a second."""
        self.now += 1.0
        self.readings += 1
        return self.readings


def test_figures_that_take_long_are_read_rarely() -> None:
    """As often as ten such readings would fit between two; after an action anew."""
    server = Server()
    read = LastRead(server.totals, spared=SPARED, clock=cast("Clock", server))

    assert [read(), read()] == [1, 1]
    server.now += SPARED - 0.1
    assert read() == 1
    server.now += 0.2
    assert [read(), read()] == [2, 2]
    read.forget()
    assert read() == 3
