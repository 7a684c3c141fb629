"""Schedules as JSON that people can read: built from it, and written in one form. Pure.

``{"every": 30}``, ``{"cron": "0 4 * * *", "zone": "Europe/Paris"}``: one key names the
kind, the others are its options. What can be in code only is refused.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from celery.schedules import ParseException, crontab, schedule, solar

from celery_pecker import calendars
from celery_pecker.calendars import CalendarSchedule, Jittered, Splayed
from celery_pecker.calendars.fields import crontab_parts, parse
from celery_pecker.calendars.spread import Every
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.schedules.declarations.validation import check_schedule

Kinds = Mapping[str, tuple[type, ...]]
NUMBER, TEXT = (int, float), (str,)
OPTIONS: Mapping[str, Kinds] = {
    "every": {"relative": (bool,)},
    "cron": dict.fromkeys(("zone", "start", "end", "calendar", "days"), TEXT),
    "crontab": {},
    "recurrence": {},
    "rrule": dict.fromkeys(("zone", "start", "end"), TEXT),
    "solar": {"lat": NUMBER, "lon": NUMBER},
    "once": {},
}
"""Of each kind: its options, and what they are in JSON."""
MOVED: Kinds = {
    "jitter": NUMBER,
    "splay": (bool, *NUMBER),
    "key": TEXT,
}
"""Options that move the instants of a kind."""
MOVABLE = ("every", "cron", "recurrence", "rrule")
RECURRENCE: Kinds = {
    "level": TEXT,
    "every": (int,),
    "days": (list,),
    **dict.fromkeys(("zone", "calendar", "start", "end"), TEXT),
}
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
ALLOWED = (
    "seconds, a timedelta, crontab, solar, cron, recurrence, rrule, jitter or splay, or"
    f" JSON with one key of {', '.join(OPTIONS)}"
)


@dataclass(frozen=True, slots=True)
class Once:
    """One instant."""

    at: datetime


def refuse(message: str) -> NoReturn:
    """Raise InvalidField for the schedule."""
    raise InvalidField(f"schedule: {message}", field="schedule")


def of_json(document: object) -> Any:
    """Return the schedule that a JSON document describes: of Celery, of ours, or Once.

    Raises:
        InvalidField: it describes none.
    """
    if not isinstance(document, Mapping):
        refuse(f"{document!r} is no JSON object; allowed is {ALLOWED}")
    kinds = [kind for kind in OPTIONS if kind in document]
    if len(kinds) != 1:
        refuse(f"{_shown(document)} has {kinds or 'no kind'}; allowed is {ALLOWED}")
    [kind] = kinds
    known = {**OPTIONS[kind], **(MOVED if kind in MOVABLE else {})}
    _check_options(kind, {k: v for k, v in document.items() if k != kind}, known)
    try:
        return _moved(document, _made(kind, document))
    except InvalidField:
        raise
    except (Misconfigured, ValueError, OverflowError) as error:
        raise InvalidField(str(error), field="schedule") from error


def _made(kind: str, document: Mapping[str, Any]) -> Any:
    value = document[kind]
    if kind == "every":
        return _every(value, document)
    if kind == "once":
        return Once(instant("once", value))
    if kind == "recurrence":
        return _recurrence(value)
    if not isinstance(value, str):
        refuse(f"{kind} is {value!r}; allowed is a text")
    options = {k: v for k, v in document.items() if k in OPTIONS[kind]}
    make: dict[str, Any] = {"cron": calendars.cron, "rrule": _rrule, "solar": _solar}
    return _crontab(value) if kind == "crontab" else make[kind](value, **options)


def _recurrence(value: object) -> Any:
    if not isinstance(value, Mapping):
        refuse(f"recurrence is {value!r}; allowed is an object of its options")
    _check_options("recurrence", value, RECURRENCE)
    for needed in ("start", "level"):
        if needed not in value:
            refuse(f"recurrence has no {needed!r}")
    return calendars.recurrence(**value)


def _rrule(value: str, *, start: str | None = None, **options: Any) -> Any:
    if start is None:
        refuse("rrule has no 'start': the rule counts from it")
    return calendars.rrule(value, start=start, **options)


def _every(value: object, document: Mapping[str, Any]) -> Any:
    check_schedule("schedule", value)
    if isinstance(value, timedelta) or not isinstance(value, NUMBER):
        refuse(f"every is {value!r}; allowed are seconds")
    if "jitter" in document or "splay" in document:
        if document.get("relative"):
            refuse("relative is true; allowed is false with jitter or splay")
        return Every(float(value))
    relative = bool(document.get("relative", False))
    if relative and value < 1:
        refuse(f"every is {value!r}, relative; allowed with relative is 1 s or more")
    return schedule(timedelta(seconds=value), relative=relative)


def _crontab(value: str) -> Any:
    parts = value.split()
    if len(parts) != 5:  # noqa: PLR2004  # of a crontab
        refuse(
            f"crontab is {value!r}; allowed are five fields: minute, hour, day of the"
            " month, month, day of the week"
        )
    fields = parse("crontab", " ".join(parts))
    if not any(
        day <= LONGEST_MONTHS[month - 1] for month in fields.month for day in fields.day
    ):
        refuse(f"crontab is {value!r}; allowed is one that comes at all")
    try:
        return crontab.from_string(" ".join(parts))
    except (ParseException, TypeError, ValueError) as error:
        refuse(f"crontab is {value!r}, which Celery refuses: {error}")


def _solar(value: Any, *, lat: Any = None, lon: Any = None) -> Any:
    for name, degrees, most in (("lat", lat, 90), ("lon", lon, 180)):
        if degrees is None or not -most <= degrees <= most:
            refuse(f"{name} is {degrees!r}; allowed are {-most} to {most} degrees")
    try:
        return solar(value, lat, lon)
    except (ValueError, TypeError, ImportError) as error:
        refuse(f"solar is {value!r}: {error}")


def _moved(document: Mapping[str, Any], base: Any) -> Any:
    key = document.get("key")
    over = document.get("splay", False)
    moved = base
    if over is not False:
        if over is True and not isinstance(base, Every):
            refuse("splay is true; allowed is that of 'every' only, else seconds")
        seconds = base.seconds if over is True else over
        moved = calendars.splay(moved, over=seconds, key=key)
    if "jitter" in document:
        moved = calendars.jitter(moved, most=document["jitter"], key=key)
    if key is not None and moved is base:
        refuse(f"key is {key!r}; allowed is one with jitter or splay only")
    return moved


def _check_options(kind: str, options: Mapping[str, Any], known: Kinds) -> None:
    for name, value in options.items():
        expected = known.get(name)
        if expected is None:
            allowed = ", ".join(known) or "none"
            refuse(f"{kind} has no option {name!r}; allowed are {allowed}")
        switch = isinstance(value, bool) and bool not in expected
        if switch or not isinstance(value, expected):
            words = " or ".join(_WORDS[one] for one in expected)
            refuse(f"{name} of {kind} is {value!r}; allowed is {words}")


_WORDS = {
    bool: "true or false",
    str: "a text",
    int: "a number",
    float: "a fraction",
    list: "a list",
}


def instant(name: str, value: object, *, aware: bool = True) -> datetime:
    """Return an instant from its text.

    Raises:
        InvalidField: it is none, or, where it must be aware, has no offset.
    """
    moment = moment_of(value) if isinstance(value, str) else None
    if moment is None or (aware and moment.tzinfo is None):
        example = "'2026-11-23T10:00:00+00:00'"
        refuse(f"{name} is {value!r}; allowed is an instant as {example}")
    return moment


def _shown(document: Mapping[str, Any]) -> str:
    text = repr(dict(document))
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004  # characters


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
