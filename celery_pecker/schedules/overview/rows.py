"""Rows of the tables as what people see. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.history.outcomes import COLUMNS
from celery_pecker.schedules.overview.model import (
    NOTHING_YET,
    BadEnd,
    EntryRow,
    Fence,
    Outcomes,
    Totals,
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
    row: Any, now_us: int, overdue_after: float, ended: Mapping[str, Outcomes]
) -> EntryRow:
    """Return an entry as the tables have it, with how its runs ended."""
    period_us, last_us, spark = row.period_us, row.last_us, row.spark or []
    next_us = None if period_us is None else last_us + period_us
    overdue_us = 0
    if row.declared and next_us is not None:
        overdue_us = max(now_us - next_us, 0)
    outcomes = ended.get(row.name, NOTHING_YET)
    return EntryRow(
        name=row.name,
        task=row.task or "",
        schedule=row.schedule or "",
        run=row.run or "",
        delivery=row.delivery or "",
        period_us=period_us,
        timeout_us=row.timeout_us,
        last_us=last_us,
        next_us=next_us,
        late_us=spark[-1] if spark else None,
        overdue_us=overdue_us,
        holder=row.holder,
        host=row.host,
        epoch=row.epoch,
        era=row.era,
        missed=row.missed,
        paused=row.paused,
        declared=row.declared,
        state=state(
            declared=row.declared,
            paused=row.paused,
            overdue=overdue_us > overdue_after * SECOND,
            new=not row.epoch,
            unclaimed=not row.claimed,
            failing=outcomes.failing,
            unreported=outcomes.unreported_us is not None,
        ),
        spark=spark,
        outcomes=outcomes,
    )


def outcomes_of(
    *, name: str, counts: Sequence[int], report: int | None, **columns: Any
) -> tuple[str, Outcomes]:
    """Return how the runs of an entry ended, with its name."""
    bad = {key: columns.pop(key) for key in ("due_us", "era", "at_us", "host")}
    error = columns.pop("error") or ""
    return name, Outcomes(
        counts=dict(zip(COLUMNS, counts, strict=True)),
        bad=None if report is None else BadEnd(state=named(report), error=error, **bad),
        **columns,
    )


def totals_of(*, counts: Sequence[int | None], **figures: Any) -> Totals:
    """Return the figures of all entries."""
    counted = zip(COLUMNS, counts, strict=True)
    return Totals(counts={key: number or 0 for key, number in counted}, **figures)


def fence_of(row: Any) -> Fence | None:
    """Return the last start of a run; None if none was reported."""
    if row.fence_epoch is None:
        return None
    return Fence(
        epoch=row.fence_epoch,
        era=row.fence_era,
        attempt=row.fence_attempt,
        due_us=row.fence_due_us,
        started_us=row.fence_started_us,
    )
