"""The nouns: what can be reported of a slot, by which process and when."""

import uuid
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from celery_pecker.kernel.figures import Spent


class Report(IntEnum):
    """What one process reports of one slot. The numbers are in tables: they stay."""

    PUBLISHED = 1
    """The broker has its message, or this worker has taken it to run."""
    MISSED = 2
    """It was too late to send it."""
    MISFIRED = 3
    """Its grace or deadline was over when it was found."""
    FAILED_TO_SEND = 4
    """It could not be sent, or it is not known whether it was."""
    PAUSED = 5
    """Its entry was paused: it passed without a run."""
    HELD = 6
    """A gate held its entry back."""
    STARTED = 10
    SUCCEEDED = 11
    FAILED = 12
    OVERRUN = 13
    """The run was still going at its deadline."""
    RUNNING = 14
    """A worker runs it, for some seconds by now."""
    LOST = 15
    """The process that ran it has ended without a report, or shows no life."""
    REFUSED_LATE = 20
    """The worker got it after its deadline."""
    REFUSED_OVERTAKEN = 21
    """A newer run of the entry was claimed or had started."""
    REFUSED_UNKNOWN = 22
    """The worker could not ask whether it may start."""
    REFUSED_REPEATED = 23
    """This very run had started before."""
    ASKED = 30
    """A requested run, beside the grid."""


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One report of one slot."""

    due_us: int
    era: int
    epoch: int
    at_us: int
    """When, by the database's clock."""
    report: Report
    holder: uuid.UUID
    """Which process life reports it."""


class Historian(Protocol):
    """Writes reports to the history, and says when it accepts them."""

    def note(  # noqa: PLR0913, PLR0917  # the parts of a report
        self,
        name: str,
        due_us: int,
        era: int,
        epoch: int,
        at_us: int,
        report: Report,
        error: str = "",
        spent: Spent | None = None,
    ) -> None:
        """Keep a report of a slot in memory; never wait, never fail."""

    def allow(self, until: float) -> None:
        """Allow writing until that moment of the monotonic clock: nothing is due."""


class NoHistory:
    """Takes nothing down."""

    def note(self, *_: object, **__: object) -> None:
        """Keep a report of a slot in memory; never wait, never fail."""

    def allow(self, until: float) -> None:
        """Allow writing until that moment of the monotonic clock: nothing is due."""
