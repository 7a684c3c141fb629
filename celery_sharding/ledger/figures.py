"""The figures of all jobs, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_sharding.ledger.rows import Totals
from celery_sharding.model import Outcome, Stage

OPEN = tuple(stage for stage in Stage if stage is not Stage.ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """How all jobs stand at one moment; durations in seconds."""

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


def figures_of(row: tuple[Any, ...], totals: Totals) -> JobFigures:
    """Return the figures from `read_figures` and `read_totals`."""
    stages, rest = row[: len(OPEN)], row[len(OPEN) :]
    oldest, total, done, failed, sent, overdue, overdue_seconds = rest
    return JobFigures(
        stages={stage.value: count for stage, count in zip(OPEN, stages, strict=True)},
        outcomes={
            Outcome.SUCCEEDED.value: totals.succeeded,
            Outcome.FAILED.value: totals.failed,
            Outcome.CANCELLED.value: totals.cancelled,
        },
        items={"total": total, "done": done, "failed": failed},
        tickets={"held": totals.held, "sent": sent},
        paused=totals.paused,
        oldest=oldest,
        overdue=overdue,
        overdue_seconds=overdue_seconds,
        executors=totals.executors,
        slots=totals.slots,
    )
