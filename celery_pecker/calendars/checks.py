"""Check what a schedule is given; name the field, the value and what is allowed."""

from datetime import datetime, timedelta, tzinfo
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from celery_pecker.kernel.declared import is_number, moment_of
from celery_pecker.kernel.errors import Misconfigured

Zone = str | tzinfo
Instant = str | datetime
Duration = float | timedelta


def refuse(what: str, field: str, value: object, allowed: str) -> NoReturn:
    """Raise Misconfigured for one field of a schedule."""
    Misconfigured.refuse(f"{what}: {field}", value, f"is {allowed}")


def zone_of(what: str, zone: Zone | None) -> tzinfo | None:
    """Return a time zone by its name, None for the app's."""
    if zone is None or isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(zone)
    except (TypeError, ValueError, OSError, LookupError):
        # No such file, a folder, a path out of the folder, no text.
        allowed = "a name of the tz database, as 'Europe/Paris', or a tzinfo"
        refuse(what, "zone", zone, allowed)


EARLIEST = 1900
"""The first year of a start or an end: working days are counted from a start on."""


def instant_of(what: str, field: str, value: Instant | None) -> datetime | None:
    """Return a datetime in whole seconds; a naive one is local time of the zone."""
    if value is None:
        return None
    moment = moment_of(value)
    if moment is None or moment.microsecond or moment.year < EARLIEST:
        allowed = (
            f"a datetime in whole seconds from {EARLIEST} on, or its text, as"
            " '2026-03-23 18:00'; without an offset it is local time of the zone"
        )
        refuse(what, field, value, allowed)
    return moment


def seconds_of(
    what: str, field: str, value: Any, *, least: float, most: float
) -> float:
    """Return a duration in seconds, given as a number or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_number(seconds, least, most):
        refuse(what, field, value, f"{least:g} to {most:g} seconds, or a timedelta")
    return float(seconds)
