"""Reports of processes, put together into slots. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from celery_pecker.schedules.history import Report, SlotReport, merge
from celery_pecker.schedules.overview.model import SlotRow

_KNOWN = {int(report): report for report in Report}


def named(number: int) -> str:
    """Return the word of a report; of a version to come, its number."""
    report = _KNOWN.get(number)
    return f"report {number}" if report is None else report.name.lower()


def slots(rows: Sequence[Any], limit: int) -> list[SlotRow]:
    """Return one row for each slot that was reported of, newest first."""
    hosts = {row.holder: row.host for row in rows if row.host is not None}
    records = merge(_reports(rows))
    return [
        SlotRow(
            due_us=due_us,
            era=era,
            epoch=record.top.epoch,
            late_us=record.late_us,
            state=record.state.name.lower(),
            at_us=record.top.at_us,
            holder=record.top.holder,
            host=hosts.get(record.top.holder),
        )
        for (era, due_us), record in sorted(records.items(), reverse=True)[:limit]
    ]


def _reports(rows: Iterable[Any]) -> Iterator[SlotReport]:
    for row in rows:
        for due_us, epoch, at_us, number in zip(
            row.due_us, row.epoch, row.at_us, row.report, strict=False
        ):
            report = _KNOWN.get(number)
            if report is not None:  # else of a version to come
                yield SlotReport(
                    due_us=due_us,
                    era=row.era,
                    epoch=epoch,
                    at_us=at_us,
                    report=report,
                    holder=row.holder,
                )
