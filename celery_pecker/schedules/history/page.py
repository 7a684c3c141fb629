"""A page: up to 60 slots of one entry, as one row of the table."""

from __future__ import annotations

from array import array

SLOTS = 60
"""Slots on a page: a minute of a per-second entry."""
REPORTS = 120
"""Reports on a page, where its slots have several each."""


class Page:
    """Reports of one entry in one era; arrays, because thousands of pages are open."""

    __slots__ = (
        "at",
        "due",
        "epoch",
        "era",
        "first_us",
        "last_us",
        "name",
        "report",
        "slots",
        "written",
    )

    def __init__(self, name: str, era: int, first_us: int) -> None:
        self.name = name
        self.era = era
        self.first_us = first_us
        """Names the page together with name and era."""
        self.last_us = first_us
        self.due = array("q")
        self.epoch = array("q")
        self.at = array("q")
        self.report = array("h")
        self.slots = 0
        self.written = False
        """Whether the table has it, in part at least."""

    @property
    def full(self) -> bool:
        """Whether the next slot needs another page."""
        return self.slots >= SLOTS or len(self.due) >= REPORTS

    def add(self, due_us: int, epoch: int, at_us: int, report: int) -> None:
        """Put a report at the end."""
        if due_us not in self.due[-3:]:
            self.slots += 1
        self.last_us = max(self.last_us, due_us)
        self.due.append(due_us)
        self.epoch.append(epoch)
        self.at.append(at_us)
        self.report.append(report)
