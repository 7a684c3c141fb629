"""What a check found: good, worth a look, or wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's outcome."""

    check: str
    grade: Grade
    text: str
    advice: str | None = None
    """What to do about it."""


def ok(check: str, text: str) -> Finding:
    """Return that it is well."""
    return Finding(check=check, grade=Grade.OK, text=text)


def warn(check: str, text: str, advice: str) -> Finding:
    """Return that it should be looked at."""
    return Finding(check=check, grade=Grade.WARN, text=text, advice=advice)


def fail(check: str, text: str, advice: str) -> Finding:
    """Return that it is wrong: slots are, or will be, late or lost."""
    return Finding(check=check, grade=Grade.FAIL, text=text, advice=advice)
