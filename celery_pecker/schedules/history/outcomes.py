"""What became of an entry's runs, added up until it is written. Pure.

Counts are added to those in the table. The last good slot and the last bad one are
maxima: whichever process writes first, the table ends up the same.
"""

from dataclasses import dataclass, field

from celery_pecker.schedules.history.report import Report

COUNTED = {
    Report.PUBLISHED: "published",
    Report.MISSED: "not_sent",
    Report.FAILED_TO_SEND: "not_sent",
    Report.SUCCEEDED: "succeeded",
    Report.FAILED: "failed",
    Report.OVERRUN: "overrun",
    Report.LOST: "lost",
    Report.REFUSED_LATE: "refused_late",
    Report.REFUSED_OVERTAKEN: "refused_overtaken",
    Report.REFUSED_UNKNOWN: "refused_unknown",
    Report.REFUSED_REPEATED: "refused_repeated",
}
"""The column of pecker_outcomes that counts a report; others are not counted."""
COLUMNS = tuple(dict.fromkeys(COUNTED.values()))
_PLACES: dict[int, int] = {
    one: COLUMNS.index(column) for one, column in COUNTED.items()
}

NOT_SENT = frozenset({Report.MISSED, Report.FAILED_TO_SEND})
BEGUN = frozenset({Report.STARTED, Report.RUNNING})
"""Not counted, since the run will have an end; but a worker has it."""
LONGEST = 200
"""Characters of an error that are kept."""

Slot = tuple[int, int]
"""Era and instant: a later slot is greater."""
Bad = tuple[int, int, int, int, str]
"""Era, instant, when it was reported, the report, what was raised."""


@dataclass(slots=True)
class OutcomeCounts:
    """Of one entry: what is not written yet."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    good: Slot | None = None
    sent: Slot | None = None
    reported: Slot | None = None
    """The last one that a worker reported of, whatever it was."""
    bad: Bad | None = None
    unsent: Bad | None = None

    @property
    def urgent(self) -> bool:
        """Whether there is bad news."""
        return self.bad is not None or self.unsent is not None

    def add(self, slot: Slot, at_us: int, report: int, error: str) -> None:
        """Take in one report of those that are kept."""
        if report in _PLACES:
            self.counts[_PLACES[report]] += 1
        if report != Report.PUBLISHED and report not in NOT_SENT:
            self.reported = max(self.reported or slot, slot)
        if report == Report.SUCCEEDED:
            self.good = max(self.good or slot, slot)
        elif report == Report.PUBLISHED:
            self.sent = max(self.sent or slot, slot)
        elif report in NOT_SENT:
            failure = (*slot, at_us, report, storable(error))
            self.unsent = max(self.unsent or failure, failure)
        elif report != Report.REFUSED_REPEATED and report not in BEGUN:
            # A repeated one is no end: the run that it repeats will have its own.
            failure = (*slot, at_us, report, storable(error))
            self.bad = max(self.bad or failure, failure)


def kept(report: int) -> bool:
    """Return whether a report says something of the entry's runs."""
    return report in _PLACES or report in BEGUN


def storable(error: str) -> str:
    """Return what PostgreSQL can store of an error, on one line and cut."""
    plain = error.replace("\0", "").encode(errors="replace").decode()
    return " ".join(plain.split())[:LONGEST]
