"""Rows of the tables as what people see. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.overview.model import (
    NOTHING_YET,
    BadEnd,
    EntryRow,
    Fence,
    Outcomes,
)
from celery_pecker.schedules.overview.slots import named

STATES = (
    *("overdue", "unclaimed", "failing", "unreported"),
    *("undeclared", "paused", "new", "ok"),
)
"""What needs a look comes first."""


def state(*, declared: bool, paused: bool, new: bool, **signs: bool) -> str:
    """Return the one word for an entry.

    An undeclared entry cannot be overdue; a pause is a user's decision, so it is
    shown before what it may hide. ``signs``: which of the others it shows.
    """
    if not declared:
        return "undeclared"
    if paused:
        return "paused"
    shown = (one for one in STATES if signs.get(one))
    return next(shown, "new" if new else "ok")


def entry_of(
    row: Sequence[Any], now_us: int, overdue_after: float, ended: Mapping[str, Outcomes]
) -> EntryRow:
    """Return an entry as the tables have it, with how its runs ended."""
    (
        name,
        task,
        schedule,
        run,
        delivery,
        period_us,
        timeout_us,
        last_us,
        epoch,
        era,
        missed,
        paused,
        declared,
        claimed,
        holder,
        host,
        spark,
    ) = row
    next_us = None if period_us is None else last_us + period_us
    overdue_us = max(now_us - next_us, 0) if declared and next_us is not None else 0
    outcomes = ended.get(name, NOTHING_YET)
    return EntryRow(
        name=name,
        task=task or "",
        schedule=schedule or "",
        run=run or "",
        delivery=delivery or "",
        period_us=period_us,
        timeout_us=timeout_us,
        last_us=last_us,
        next_us=next_us,
        late_us=spark[-1] if spark else None,
        overdue_us=overdue_us,
        holder=holder,
        host=host,
        epoch=epoch,
        era=era,
        missed=missed,
        paused=paused,
        declared=declared,
        state=state(
            declared=declared,
            paused=paused,
            overdue=overdue_us > overdue_after * SECOND,
            new=not epoch,
            unclaimed=not claimed,
            failing=outcomes.failing,
            unreported=outcomes.unreported_us is not None,
        ),
        spark=spark or [],
        outcomes=outcomes,
    )


def bad_end_of(row: Sequence[Any]) -> BadEnd | None:
    """Return the last run that ended badly; None if none did."""
    report, due_us, era, at_us, host, error = row
    if report is None:
        return None
    return BadEnd(
        state=named(report),
        due_us=due_us,
        era=era,
        at_us=at_us,
        host=host,
        error=error or "",
    )


def fence_of(row: Sequence[Any]) -> Fence | None:
    """Return the last start of a run; None if none was reported."""
    return None if row[0] is None else Fence(*row)
