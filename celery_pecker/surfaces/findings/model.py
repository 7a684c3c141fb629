"""What a look found: good, worth a look, or wrong; what to do; what follows from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from celery_pecker.kernel.app_modules import own_app


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


TITLES = {
    "look": "The page does not see what is so now",
    "settings": "The settings are wrong",
    "database": "PostgreSQL cannot be used",
    "schema": "The tables are not up to date",
    "rights": "A right is missing",
    "owner": "The schema belongs to another app",
    "table": "A table needs care",
    "locks": "Rows are locked",
    "held snapshots": "A transaction holds back the clean-up",
    "broker": "The broker is away",
    "redis writes": "Redis takes no messages",
    "redis eviction": "Redis may drop queues",
    "workers": "No worker answers",
    "schedulers": "No scheduler is alive",
    "clock step": "The clock of the database stepped back",
    "clock": "Clocks differ",
    "queue": "No worker takes a queue",
    "task": "No worker knows a task",
    "declarations": "Schedulers declare different schedules",
    "unreadable": "A stored schedule cannot be read",
    "overdue": "Entries are overdue",
    "unclaimed": "Entries that no scheduler claims",
    "unsent": "Slots are not sent",
    "failing": "Runs fail",
    "unreported": "Messages that no worker reports of",
    "paused": "Paused entries",
    "jobs wait": "Sharded jobs stand still",
    "jobs untaken": "No worker takes shards",
    "jobs failed": "Sharded jobs failed",
    "throttle store": "The gate has no answer",
    "limit": "A limit is not kept",
    "held tasks": "A limit holds tasks",
    "unmetered": "No meter counts tasks",
    "parked": "Parked messages",
    "observers parked": "Parked observers",
    "observers hosts": "Hosts of observers died",
}
"""What stands above a finding that is wrong, by the beginning of its check."""
SURE = ("paused", "held snapshots", "workers", "held tasks", "unmetered")
"""What has the same title where it is only worth a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    check: str
    """What was looked at: of each of its kind by name, as ``queue mail``."""
    grade: Grade
    text: str
    advice: str | None = None
    """What to do about it."""
    since_us: int | None = None
    """Since when it is so, where that is known."""
    act: str = ""
    """What of ours ends it: the name of an act of the view; empty: nothing does."""
    about: str = ""
    """What the act is done to, as it is called with."""
    opens: str = ""
    """Which page of ours shows more: its address."""
    under: str = ""
    """The cause that it follows from, where it stands in a list behind it."""
    consequences: "tuple[Finding, ...]" = ()
    """What it has made wrong."""

    @property
    def state(self) -> str:
        """Return how bad it is, for people."""
        return {Grade.OK: "well", Grade.WARN: "worth a look"}.get(self.grade, "wrong")

    @property
    def title(self) -> str:
        """Return what people call it."""
        if self.grade is not Grade.FAIL and not self.check.startswith(SURE):
            return self.check
        known = (words for name, words in TITLES.items() if self.check.startswith(name))
        return next(known, self.check)


def ok(check: str, text: str) -> Finding:
    """Return that it is well."""
    return Finding(check=check, grade=Grade.OK, text=text)


def warn(check: str, text: str, advice: str, **more: Any) -> Finding:
    """Return that it should be looked at."""
    advice = own_app(advice)
    return Finding(check=check, grade=Grade.WARN, text=text, advice=advice, **more)


def fail(check: str, text: str, advice: str, **more: Any) -> Finding:
    """Return that it is wrong: slots are, or will be, late or lost."""
    advice = own_app(advice)
    return Finding(check=check, grade=Grade.FAIL, text=text, advice=advice, **more)
