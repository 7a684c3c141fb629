"""Build a schedule from JSON that people can read. Pure.

``{"every": 30}``, ``{"cron": "0 4 * * *", "zone": "Europe/Paris"}``: one key names the
kind, the others are its options. `schedule_to_json` gives the same JSON, in one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from celery.schedules import ParseException, crontab, schedule, solar

from celery_pecker import calendars
from celery_pecker.calendars.fields import parse
from celery_pecker.calendars.spread import Every
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.schedules.declarations import check_schedule

NUMBER = (int, float)
OPTIONS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "every": {"relative": bool},
    "cron": {"zone": str, "start": str, "end": str, "calendar": str, "days": str},
    "crontab": {},
    "recurrence": {},
    "rrule": {"zone": str, "start": str, "end": str},
    "solar": {"lat": NUMBER, "lon": NUMBER},
    "once": {},
}
"""Of each kind: its options, and what they are in JSON."""
MOVED: Mapping[str, type | tuple[type, ...]] = {
    "jitter": NUMBER,
    "splay": (bool, *NUMBER),
    "key": str,
}
"""Options that move the instants of a kind."""
MOVABLE = ("every", "cron", "recurrence", "rrule")
RECURRENCE = {
    "level": str,
    "every": int,
    "days": list,
    "zone": str,
    "calendar": str,
    "start": str,
    "end": str,
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
    text = f"schedule: {message}"
    raise InvalidField(text, field="schedule")


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
    minute, hour, day, month, weekday = parts
    try:
        return crontab(
            minute=minute,
            hour=hour,
            day_of_month=day,
            month_of_year=month,
            day_of_week=weekday,
        )
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


def _check_options(
    kind: str,
    options: Mapping[str, Any],
    known: Mapping[str, type | tuple[type, ...]],
) -> None:
    for name, value in options.items():
        expected = known.get(name)
        if expected is None:
            allowed = ", ".join(known) or "none"
            refuse(f"{kind} has no option {name!r}; allowed are {allowed}")
        switch = bool in (expected if isinstance(expected, tuple) else (expected,))
        if not isinstance(value, expected) or (isinstance(value, bool) and not switch):
            kinds = expected if isinstance(expected, tuple) else (expected,)
            words = " or ".join(_WORDS[one] for one in kinds)
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
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or (aware and moment.tzinfo is None):
        example = "'2026-11-23T10:00:00+00:00'"
        refuse(f"{name} is {value!r}; allowed is an instant as {example}")
    return moment


def _shown(document: Mapping[str, Any]) -> str:
    text = repr(dict(document))
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004  # characters
