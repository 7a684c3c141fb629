"""Reports of a slot by several processes become one fate. Pure.

Reports arrive in any order, some twice, some from processes that were frozen. So a fate
is a maximum: it only ever goes forward, whatever comes first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from celery_pecker.schedules.history.report import Report, SlotReport

FORWARD = (
    Report.ASKED,
    Report.HELD,
    Report.MISSED,
    Report.MISFIRED,
    Report.FAILED_TO_SEND,
    Report.PAUSED,
    Report.PUBLISHED,
    Report.REFUSED_UNKNOWN,
    Report.REFUSED_LATE,
    Report.REFUSED_OVERTAKEN,
    Report.REFUSED_REPEATED,
    Report.STARTED,
    Report.RUNNING,
    Report.LOST,
    Report.FAILED,
    Report.SUCCEEDED,
    Report.OVERRUN,
)
"""From the weakest to the strongest. A copy that was refused is weaker than one that
ran; a retry that succeeded is stronger than the failure before; and a run that went
past its deadline is reported so, however it ended."""
_RANK = {report: place for place, report in enumerate(FORWARD)}
_GOES_ON = {Report.RUNNING, Report.LOST}
"""Of these the later one holds: a process that was frozen, or cut off, and that was
therefore called lost, reports when it comes back that its run goes on."""
_SENT = {Report.PUBLISHED}
_STARTED = {Report.STARTED}


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """What is known of a slot."""

    top: SlotReport
    """The strongest report; the earliest of equal ones."""
    published: SlotReport | None
    """The earliest report that it was sent."""
    started: SlotReport | None
    """The earliest report that it ran."""

    @property
    def state(self) -> Report:
        """The state of the slot, as far as it was reported."""
        return self.top.report

    @property
    def late_us(self) -> int | None:
        """How late it was sent, or, where that was not reported, started."""
        first = self.published or self.started
        return None if first is None else max(first.at_us - first.due_us, 0)


def merge(reports: Iterable[SlotReport]) -> dict[tuple[int, int], SlotRecord]:
    """Return the fates of slots by (era, due_us)."""
    records: dict[tuple[int, int], SlotRecord] = {}
    for one in reports:
        slot = (one.era, one.due_us)
        record, known = _record(one), records.get(slot)
        records[slot] = record if known is None else join(known, record)
    return records


def join(one: SlotRecord, other: SlotRecord) -> SlotRecord:
    """Return the fate that two halves of a story make together."""
    return SlotRecord(
        top=max(one.top, other.top, key=_weight),
        published=_first(one.published, other.published),
        started=_first(one.started, other.started),
    )


def _record(one: SlotReport) -> SlotRecord:
    return SlotRecord(
        top=one,
        published=one if one.report in _SENT else None,
        started=one if one.report in _STARTED else None,
    )


def _weight(one: SlotReport) -> tuple[int, int, int, int, bytes]:
    """Order reports totally, so that the same one wins in whatever order they come."""
    later = one.at_us if one.report in _GOES_ON else -one.at_us
    return rank(one.report), later, one.report, one.epoch, one.holder.bytes


def rank(report: Report) -> int:
    """Return the rank of a report: none is replaced by one of a lower rank."""
    return _RANK[Report.LOST if report in _GOES_ON else report]


def _first(one: SlotReport | None, other: SlotReport | None) -> SlotReport | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=_weight)
