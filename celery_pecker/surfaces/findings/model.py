"""What a look found: good, worth a look, or wrong; what to do; what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


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
    consequences: tuple[Finding, ...] = ()
    """What it has made wrong."""


def ok(check: str, text: str) -> Finding:
    """Return that it is well."""
    return Finding(check=check, grade=Grade.OK, text=text)


def warn(check: str, text: str, advice: str, **more: Any) -> Finding:
    """Return that it should be looked at."""
    return Finding(check=check, grade=Grade.WARN, text=text, advice=advice, **more)


def fail(check: str, text: str, advice: str, **more: Any) -> Finding:
    """Return that it is wrong: slots are, or will be, late or lost."""
    return Finding(check=check, grade=Grade.FAIL, text=text, advice=advice, **more)
