"""What is refused of a ``beat_schedule`` before Celery reads it."""

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from celery.beat import ScheduleEntry

from celery_pecker.kernel.errors import Misconfigured

SHORTEST = 0.1
"""Seconds: the shortest period."""
TEN_YEARS = 10 * 366 * 86_400
"""Seconds: the longest period, timeout and grace."""
LONGEST = 1_000
"""Bytes in the name of an entry: it is the key of an index, and part of each claim."""
KEYS = ("task", "schedule", "args", "kwargs", "options", "relative", "pecker")


def check_beat_schedule(beat_schedule: Any) -> None:
    """Refuse entries that Celery itself would answer with a bare TypeError."""
    if not isinstance(beat_schedule, Mapping):
        Misconfigured.refuse(
            "beat_schedule", beat_schedule, "is a dict of entries by name"
        )
    for name, entry in beat_schedule.items():
        where = f"beat_schedule[{name!r}]"
        if not storable(name):
            raise Misconfigured(
                f"{where[:200]}: the name must be a string of 1 to {LONGEST} bytes of"
                " UTF-8 without NUL"
            )
        if not isinstance(entry, ScheduleEntry):
            _check_one(where, entry)


def storable(name: object) -> bool:
    """Return whether PostgreSQL can store the name, and index it."""
    if not isinstance(name, str) or "\0" in name:
        return False
    try:
        return 0 < len(name.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False


def _check_one(where: str, entry: object) -> None:
    if not isinstance(entry, Mapping):
        Misconfigured.refuse(where, entry, f"is a dict of {', '.join(KEYS)}")
    for key in entry:
        if key not in KEYS:
            raise Misconfigured(
                f"{where} has no key {key!r}; allowed are {', '.join(KEYS)}"
            )
    for key in ("task", "schedule"):
        if entry.get(key) in (None, ""):
            raise Misconfigured(f"{where} has no {key!r}")
    check_schedule(where, entry["schedule"])
    for key, kind, allowed in (
        ("task", str, "the name of a task"),
        ("args", Iterable, "a list or tuple"),
        ("kwargs", Mapping, "a dict"),
        ("options", Mapping, "a dict of options of apply_async"),
    ):
        value = entry.get(key)
        if value is not None and not isinstance(value, kind):
            Misconfigured.refuse(f"{where}[{key!r}]", value, f"is {allowed}")
    headers = (entry.get("options") or {}).get("headers")
    if headers is not None and not isinstance(headers, Mapping):
        Misconfigured.refuse(f"{where}['options']['headers']", headers, "is a dict")


def check_schedule(where: str, schedule: object) -> None:
    """Refuse what is neither a schedule nor a length of time, or no real one."""
    if hasattr(schedule, "is_due"):
        return
    seconds = schedule.total_seconds() if isinstance(schedule, timedelta) else schedule
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        Misconfigured.refuse(
            f"{where}: schedule",
            schedule,
            "are seconds, a timedelta, crontab, solar or another celery schedule",
        )
    if math.isnan(seconds) or not SHORTEST <= seconds <= TEN_YEARS:
        raise Misconfigured(
            f"{where}: schedule is every {seconds:g} s; allowed are {SHORTEST} s to"
            " ten years"
        )
