"""RedBeat's keys in Redis, as schedules.

A sorted set `<prefix>:schedule` names the key of each entry, a hash with two JSON
texts: `definition` (which people change) and `meta` (when it ran last). The set
`<prefix>:statics` names those that its code declared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from redis import Redis
from redis.exceptions import RedisError

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import BrokerUnavailable, Misconfigured
from celery_pecker.surfaces.cli.other_schedulers.model import (
    ForeignSchedule,
    NotImportable,
)
from celery_pecker.surfaces.cli.other_schedulers.rules import rule
from celery_pecker.surfaces.cli.other_schedulers.values import crontab, iso

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
        message = f"the Redis of RedBeat is {url!r}; allowed is {', '.join(SCHEMES)}"
        raise Misconfigured(message)
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
        message = f"no answer from the Redis to read from: {error}"
        raise BrokerUnavailable(message) from error


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
            "options": _options(options),
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
        message = f"its key has no {field}: RedBeat does not run it either"
        raise NotImportable(message)
    try:
        document = json.loads(text)
    except ValueError as error:
        message = f"its {field} is no JSON: {error}"
        raise NotImportable(message) from error
    if not isinstance(document, dict):
        message = f"its {field} is {document!r}; allowed is a JSON object"
        raise NotImportable(message)
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
    message = (
        f"its schedule is {document!r}; RedBeat's own are interval, crontab and rrule"
    )
    raise NotImportable(message)


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
        message = f"{field} holds {value!r}; allowed is plain JSON"
        raise NotImportable(message)
    text = iso(_datetime(value))
    if field == "options":
        return text
    foreign.note(f"{field} has the instant {text}: sent as kombu writes it in JSON")
    return {TYPE: "datetime", "__value__": text}


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in options.items() if one is not None}


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
        message = f"an instant is {document!r}: {error}"
        raise NotImportable(message) from error
