"""Reports of processes, put together into slots. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from celery_pecker.schedules.history import Report, SlotReport, merge
from celery_pecker.schedules.overview.model import SlotRow

_KNOWN = {int(report): report for report in Report}


def named(number: int) -> str:
    """Return the word of a report; of a version to come, its number."""
    report = _KNOWN.get(number)
    return f"report {number}" if report is None else report.name.lower()


def slots(
    rows: Sequence[Sequence[Any]], hosts: Mapping[uuid.UUID, str], limit: int
) -> list[SlotRow]:
    """Return one row for each slot that was reported of, newest first."""
    records = merge(_reports(rows))
    return [
        SlotRow(
            due_us=due_us,
            era=era,
            epoch=records[era, due_us].top.epoch,
            late_us=records[era, due_us].late_us,
            state=records[era, due_us].state.name.lower(),
            at_us=records[era, due_us].top.at_us,
            holder=records[era, due_us].top.holder,
            host=hosts.get(records[era, due_us].top.holder),
        )
        for era, due_us in sorted(records, reverse=True)[:limit]
    ]


def _reports(rows: Iterable[Sequence[Any]]) -> Iterator[SlotReport]:
    for era, holder, dues, epochs, ats, reports in rows:
        for due_us, epoch, at_us, number in zip(
            dues, epochs, ats, reports, strict=False
        ):
            report = _KNOWN.get(number)
            if report is not None:  # else of a version to come
                yield SlotReport(
                    due_us=due_us,
                    era=era,
                    epoch=epoch,
                    at_us=at_us,
                    report=report,
                    holder=holder,
                )
