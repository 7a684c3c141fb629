"""Write a schedule as JSON that people can read, in its one form. Pure.

What can be in code only is refused; `schedule_from_json` builds the schedule again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import crontab, schedule, solar

from celery_pecker import calendars
from celery_pecker.calendars import CalendarSchedule, Jittered, Splayed
from celery_pecker.calendars.fields import crontab_parts
from celery_pecker.calendars.spread import Every
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.schedules.declarations import check_schedule
from celery_pecker.schedules.stored.schedule_from_json import (
    ALLOWED,
    NUMBER,
    Once,
    instant,
    of_json,
    refuse,
)


def to_json(value: object) -> dict[str, Any]:
    """Return a schedule of any allowed form as JSON in its one form.

    Raises:
        InvalidField: it is none, or can be in code only.
    """
    if isinstance(value, Mapping):
        value = of_json(value)
    try:
        return _json_of(value)
    except InvalidField:
        raise
    except Misconfigured as error:
        raise InvalidField(str(error), field="schedule") from error


def _json_of(value: Any) -> dict[str, Any]:
    if isinstance(value, Jittered | Splayed):
        return _moved_json(value)
    if isinstance(value, Every):
        return {"every": number(value.seconds)}
    if isinstance(value, CalendarSchedule):
        return _calendar_json(value)
    if isinstance(value, Once):
        return {"once": value.at.isoformat()}
    return _json_of_celery(value)


def _json_of_celery(value: Any) -> dict[str, Any]:
    if type(value) is crontab:
        return {"crontab": _crontab_text(value)}
    if type(value) is solar:
        lat, lon = number(value.lat), number(value.lon)
        return {"solar": value.event, "lat": lat, "lon": lon}
    relative = {}
    if type(value) is schedule:
        relative = {"relative": True} if value.relative else {}
        value = value.seconds
    if not isinstance(value, (timedelta, *NUMBER)):
        kind = type(value).__name__
        refuse(f"{value!r} of {kind} can be in code only; allowed is {ALLOWED}")
    check_schedule("schedule", value)
    plain = value.total_seconds() if isinstance(value, timedelta) else value
    return {"every": number(plain), **relative}


def _moved_json(value: Jittered | Splayed) -> dict[str, Any]:
    if isinstance(value, Jittered):
        document = _json_of(value.base) | {"jitter": number(value.most)}
        if isinstance(value.base, Splayed) and value.base.key != value.key:
            refuse("jitter and splay have two keys; allowed is the same for both")
    elif isinstance(value.base, Jittered | Splayed):
        refuse("splay of what is moved already; allowed is jitter(splay(…), most=…)")
    else:
        document = _json_of(value.base)
        whole = isinstance(value.base, Every) and value.over == value.base.seconds
        document["splay"] = True if whole else number(value.over)
    return document | ({} if value.key is None else {"key": value.key})


def _calendar_json(value: CalendarSchedule) -> dict[str, Any]:
    arguments, options = value._made  # noqa: SLF001  # what it was made of
    plain = {name: _plain(name, one) for name, one in options.items()}
    for name in ("start", "end"):
        if name in plain:
            plain[name] = instant(name, plain[name], aware=False).isoformat()
    if isinstance(value, calendars.Recurrence):
        plain.setdefault("every", 1)
        if plain["every"] == 1:
            del plain["every"]
        return {"recurrence": plain}
    kind = "cron" if isinstance(value, calendars.Cron) else "rrule"
    return {kind: arguments[0], **plain}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, ZoneInfo) and value.key:
        return value.key
    if value is UTC:
        return "UTC"
    if isinstance(value, tzinfo) or hasattr(value, "is_working_day"):
        refuse(f"{name} is {value!r}, which can be in code only; allowed is its name")
    return value


def _crontab_text(value: Any) -> str:
    return " ".join(_crontab_field(one) for one in crontab_parts(value))


def _crontab_field(value: Any) -> str:
    if isinstance(value, str):
        return "".join(value.split())
    if isinstance(value, int):
        return str(value)
    return ",".join(str(one) for one in sorted(value))


def number(value: float) -> float:
    """Return a number as JSON has it in one form: whole ones without a fraction."""
    return int(value) if math.isfinite(value) and value == int(value) else value
