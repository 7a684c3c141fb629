"""RedBeat's keys in Redis, as schedules.

A sorted set `<prefix>:schedule` names the key of each entry, a hash with two JSON
texts: `definition` (which people change) and `meta` (when it ran last). The set
`<prefix>:statics` names those that its code declared.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from redis import Redis
from redis.exceptions import RedisError

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import BrokerUnavailable, Misconfigured
from celery_pecker.surfaces.cli.other_schedulers.values import (
    ForeignSchedule,
    NotImportable,
    crontab,
    iso,
)

FREQ = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
PARTS = (
    *("bysetpos", "bymonth", "bymonthday", "byyearday", "byweekno"),
    *("byhour", "byminute", "bysecond"),
)
"""Lists of numbers, which RFC 5545 has under the same names."""
HOUR = 60
EAST, WEST = 14, -12
"""Hours from UTC for which the tz database has zones without summer time."""


def rule(foreign: ForeignSchedule, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schedule as JSON for what RedBeat's encoder has written."""
    if document.get("byeaster") is not None:
        raise NotImportable("byeaster of its rrule has no part in RFC 5545")
    offset = document.get("dtstart_tz") or 0
    start = _instant(document, "dtstart", offset)
    until = _instant(document, "until", offset)
    if start is None:
        raise NotImportable("dtstart of its rrule is not there: a rule counts from it")
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
        raise NotImportable(
            f"freq of its rrule is {document.get('freq')!r}; allowed is 0 to 6"
        ) from error
    if (document.get("interval") or 1) != 1:
        parts.append(f"INTERVAL={document['interval']}")
    if document.get("count") is not None:
        parts.append(f"COUNT={document['count']}")
    if document.get("wkst") is not None:
        parts.append(f"WKST={_day(document['wkst'])}")
    for key in PARTS:
        if document.get(key) is not None:
            numbers = ",".join(map(str, _listed(document[key])))
            parts.append(f"{key.upper()}={numbers}")
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
        raise NotImportable(
            f"dtstart_tz of its rrule is {offset:g} minutes; allowed are whole hours:"
            " the tz database has no zone of that offset"
        )
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
        raise NotImportable(
            f"a day of its rrule is {value!r}; allowed is 0 (Monday) to 6"
        )
    return f"{nth or ''}{DAYS[number]}"


PREFIX = "redbeat:"
TIMEOUT = 3.0
PAGE = 1_000
TYPE = "__type__"
SCHEMES = ("redis://", "rediss://", "unix://")


def redbeat(url: str, prefix: str = PREFIX) -> Iterator[ForeignSchedule]:
    """Yield the schedules of RedBeat."""
    with _opened(url) as client:
        yield from _entries(client, prefix)


def runs(url: str, prefix: str = PREFIX, lock: str | None = None) -> bool:
    """Return whether a RedBeat runs: it holds its lock, which lapses when it died."""
    key = lock or f"{prefix}:lock"
    with _opened(url) as client:
        return bool(client.exists(key if key.startswith(prefix) else f"{prefix}{key}"))


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    if not url.startswith(SCHEMES):
        raise Misconfigured(
            f"the Redis of RedBeat is {url!r}; allowed is {', '.join(SCHEMES)}"
        )
    try:
        client = Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
        )
        with closing(client):
            yield client
    except RedisError as error:
        raise BrokerUnavailable(
            f"no answer from the Redis to read from: {error}"
        ) from error


def _entries(client: Any, prefix: str) -> Iterator[ForeignSchedule]:
    keys = client.zrange(f"{prefix}:schedule", 0, -1)
    statics = client.smembers(f"{prefix}:statics")
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        with client.pipeline(transaction=False) as pipe:
            for key in page:
                pipe.hmget(key, "definition", "meta")
            texts = pipe.execute()
        for key, (definition, meta) in zip(page, texts, strict=True):
            yield entry(key.removeprefix(prefix), definition, meta, statics)


def entry(
    name: str, definition: str | None, meta: str | None, statics: set[str]
) -> ForeignSchedule:
    """Return one entry by its two texts."""
    foreign = ForeignSchedule(name=name)
    try:
        document = _json("definition", definition)
        foreign.name = document.get("name") or name
        if foreign.name in statics:
            foreign.note("its code declared it there (beat_schedule)")
        options = _plain(foreign, "options", document.get("options") or {})
        foreign.fields |= {
            "task": document.get("task"),
            "schedule": _schedule(foreign, document.get("schedule")),
            "args": _plain(foreign, "args", document.get("args") or []),
            "kwargs": _plain(foreign, "kwargs", document.get("kwargs") or {}),
            "options": {k: one for k, one in options.items() if one is not None},
            "end": None,
            "start": None,
            "once": False,
            "paused": not document.get("enabled", True),
        }
        last = _json("meta", meta or "{}").get("last_run_at")
        foreign.last_us = None if last is None else to_us(_datetime(last))
    except NotImportable as error:
        foreign.problem = str(error)
    return foreign


def _json(field: str, text: str | None) -> dict[str, Any]:
    if text is None:
        raise NotImportable(f"its key has no {field}: RedBeat does not run it either")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise NotImportable(f"its {field} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotImportable(f"its {field} is {document!r}; allowed is a JSON object")
    return document


def _schedule(foreign: ForeignSchedule, document: Any) -> dict[str, Any]:
    kind = document.get(TYPE) if isinstance(document, dict) else None
    if kind == "interval":
        every = document.get("every") or 0
        seconds = int(every) if float(every).is_integer() else every
        relative = {"relative": True} if document.get("relative") else {}
        return {"every": seconds, **relative}
    if kind == "crontab":
        # No time zone is stored: RedBeat goes by the app's.
        fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return {"crontab": crontab(*(document.get(one, "*") for one in fields))}
    if kind == "rrule":
        return rule(foreign, document)
    raise NotImportable(
        f"its schedule is {document!r}; RedBeat's own are interval, crontab and rrule"
    )


def _plain(foreign: ForeignSchedule, field: str, value: Any) -> Any:
    """Return a value with RedBeat's instants as kombu writes them.

    Its decoder makes datetimes of them before it sends; a worker that takes JSON makes
    datetimes of kombu's form.
    """
    if isinstance(value, list):
        return [_plain(foreign, field, one) for one in value]
    if not isinstance(value, dict):
        return value
    if TYPE not in value:
        return {key: _plain(foreign, field, one) for key, one in value.items()}
    if value[TYPE] != "datetime":
        raise NotImportable(f"{field} holds {value!r}; allowed is plain JSON")
    text = iso(_datetime(value))
    if field == "options":
        return text
    foreign.note(f"{field} has the instant {text}: sent as kombu writes it in JSON")
    return {TYPE: "datetime", "__value__": text}


def _datetime(document: Any) -> datetime:
    """Return an instant that RedBeat's encoder has written field by field."""
    try:
        parts = {key: one for key, one in document.items() if key != TYPE}
        zone = parts.pop("timezone", "UTC")
        if isinstance(zone, str):
            return datetime(**parts, tzinfo=ZoneInfo(zone))
        # Written as seconds from UTC
        return datetime(**parts, tzinfo=timezone(timedelta(seconds=zone)))
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise NotImportable(f"an instant is {document!r}: {error}") from error
