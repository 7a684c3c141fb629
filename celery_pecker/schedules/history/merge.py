"""Reports of a slot by several processes become one fate. Pure.

Reports arrive in any order, some twice, some from processes that were frozen. So a fate
is a maximum: it only ever goes forward, whatever comes first.
"""

from collections import defaultdict
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
    by_slot: defaultdict[tuple[int, int], list[SlotReport]] = defaultdict(list)
    for one in reports:
        by_slot[one.era, one.due_us].append(one)
    return {
        slot: SlotRecord(
            top=max(told, key=_weight),
            published=_first(told, Report.PUBLISHED),
            started=_first(told, Report.STARTED),
        )
        for slot, told in by_slot.items()
    }


def _first(told: Iterable[SlotReport], report: Report) -> SlotReport | None:
    same = (one for one in told if one.report == report)
    return max(same, key=_weight, default=None)


def _weight(one: SlotReport) -> tuple[int, int, int, int, bytes]:
    """Order reports totally, so that the same one wins in whatever order they come."""
    later = one.at_us if one.report in _GOES_ON else -one.at_us
    return rank(one.report), later, one.report, one.epoch, one.holder.bytes


def rank(report: Report) -> int:
    """Return the rank of a report: none is replaced by one of a lower rank."""
    return _RANK[Report.LOST if report in _GOES_ON else report]
