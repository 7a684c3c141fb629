"""RedBeat's rrule as a rule of RFC 5545, as far as it can be written as one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from celery_pecker.surfaces.cli.other_schedulers.model import (
    ForeignSchedule,
    NotImportable,
)

FREQ = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
PARTS = {
    "bysetpos": "BYSETPOS",
    "bymonth": "BYMONTH",
    "bymonthday": "BYMONTHDAY",
    "byyearday": "BYYEARDAY",
    "byweekno": "BYWEEKNO",
    "byhour": "BYHOUR",
    "byminute": "BYMINUTE",
    "bysecond": "BYSECOND",
}
HOUR = 60
EAST, WEST = 14, -12
"""Hours from UTC for which the tz database has zones without summer time."""


def rule(foreign: ForeignSchedule, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schedule as JSON for what RedBeat's encoder has written."""
    if document.get("byeaster") is not None:
        message = "byeaster of its rrule has no part in RFC 5545"
        raise NotImportable(message)
    offset = document.get("dtstart_tz") or 0
    start, until = (
        _instant(document, "dtstart", offset),
        _instant(document, "until", offset),
    )
    if start is None:
        message = "dtstart of its rrule is not there: a rule counts from it"
        raise NotImportable(message)
    return {
        "rrule": _text(document),
        "start": start,
        "zone": _zone(foreign, offset),
        **({"end": until} if until else {}),
    }


def _text(document: Mapping[str, Any]) -> str:
    try:
        parts = [f"FREQ={FREQ[document['freq']]}"]
    except (KeyError, IndexError, TypeError) as error:
        message = f"freq of its rrule is {document.get('freq')!r}; allowed is 0 to 6"
        raise NotImportable(message) from error
    if (document.get("interval") or 1) != 1:
        parts.append(f"INTERVAL={document['interval']}")
    if document.get("count") is not None:
        parts.append(f"COUNT={document['count']}")
    if document.get("wkst") is not None:
        parts.append(f"WKST={_day(document['wkst'])}")
    for key, part in PARTS.items():
        if document.get(key) is not None:
            parts.append(f"{part}={','.join(map(str, _listed(document[key])))}")
    if document.get("byweekday") is not None:
        days = ",".join(_day(one) for one in _listed(document["byweekday"]))
        parts.append(f"BYDAY={days}")
    return ";".join(parts)


def _instant(document: Mapping[str, Any], key: str, offset: float) -> str | None:
    """Return an instant that is kept as seconds since 1970, in the rule's zone."""
    seconds = document.get(key)
    if seconds is None:
        return None
    zone = timezone(timedelta(minutes=offset))
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat()


def _zone(foreign: ForeignSchedule, offset: float) -> str:
    """Return a zone of the same offset all year, which is all that RedBeat keeps."""
    hours, minutes = divmod(offset, HOUR)
    if minutes or not WEST <= hours <= EAST:
        message = (
            f"dtstart_tz of its rrule is {offset:g} minutes; allowed are whole hours:"
            " the tz database has no zone of that offset"
        )
        raise NotImportable(message)
    if not hours:
        return "UTC"
    foreign.note(
        f"RedBeat keeps the offset of dtstart only ({hours:+g} h), no time zone: it"
        " stays the same when clocks change, as it does there"
    )
    return f"Etc/GMT{-hours:+g}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _day(value: Any) -> str:
    number = value.get("wkday") if isinstance(value, dict) else value
    nth = value.get("n") if isinstance(value, dict) else None
    if not isinstance(number, int) or not 0 <= number < len(DAYS):
        message = f"a day of its rrule is {value!r}; allowed is 0 (Monday) to 6"
        raise NotImportable(message)
    return f"{nth or ''}{DAYS[number]}"
