"""Read the form of a stored schedule, as texts: for every form and command line.

``arguments`` turns texts into arguments of ``Schedules.set``, ``texts`` a row into
texts, and ``preview`` says what they would do. What a schedule may be is decided by the
one validator; here only texts are read.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.schedules.declarations.reading import STORED
from celery_pecker.schedules.stored import schedule_json
from celery_pecker.schedules.stored.app import Schedules
from celery_pecker.schedules.stored.checks import refuse
from celery_pecker.schedules.stored.form_fields import KINDS, NAMES
from celery_pecker.schedules.stored.model import BY_CODE, ScheduleRow

ON = {"on", "true", "yes", "1"}
OFF = {"", "off", "false", "no", "0"}
PLAIN = ("name", "task", "run", "delivery", "misfire")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a form would do."""

    words: str
    runs: list[datetime]
    """The next ones, aware, UTC."""
    field: str | None = None
    """The field that is wrong."""
    problem: str | None = None


def arguments(texts: Mapping[str, str], *, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return the arguments of ``Schedules.set`` that a form means, with its name.

    Args:
        texts: by the names of the fields; one that is not there is empty.
        zone: of instants without an offset where the form names none; the app's.

    Raises:
        InvalidField: a text cannot be read; its field is the form's.
    """
    for name in texts:
        if name not in NAMES:
            refuse(name, texts[name], f"a field of {', '.join(NAMES)}")
    asked = {name: str(texts.get(name, "") or "").strip() for name in NAMES}
    for name in ("name", "task", "kind", "value"):
        if not asked[name]:
            refuse(name, "", "a text")
    local = _zone(asked["zone"]) or zone
    options: dict[str, Any] = {name: asked[name] for name in PLAIN if asked[name]}
    for name, empty in (("args", []), ("kwargs", {}), ("options", {})):
        options[name] = _json(name, asked[name], empty)
    for name, read in READ.items():
        if asked[name]:
            options[name] = read(name, asked[name])
    options |= {n: _switch(n, asked[n]) for n in ("once", "paused") if n in texts}
    options["schedule"] = _schedule(asked, local)
    for name in ("start", "end"):
        if asked[name] and not (name == "start" and asked["kind"] == "rrule"):
            options[name] = _instant(name, asked[name], local)
    return options


def texts(row: ScheduleRow) -> dict[str, str]:
    """Return a row as the texts of a form; ``arguments`` of them mean the same.

    A value that was written by hand may be anything: it is shown as JSON, to be mended.
    """
    filled = dict.fromkeys(NAMES, "")
    filled |= {"name": row.name, "task": row.task, "run": row.run}
    policies: Any = row.policies
    pairs = policies.items() if isinstance(policies, dict) else ()
    filled |= {key: str(value) for key, value in pairs if key in STORED}
    filled |= {
        "args": json.dumps(row.args) if row.args else "",
        "kwargs": json.dumps(row.kwargs) if row.kwargs else "",
        "options": json.dumps(row.options) if row.options else "",
        "start": "" if row.start is None else row.start.isoformat(),
        "end": "" if row.end is None else row.end.isoformat(),
        "once": "on" if row.once and "once" not in row.schedule else "",
        "paused": "on" if row.paused else "",
        "version": str(row.version),
    }
    if row.problem not in {None, BY_CODE}:
        value = json.dumps(row.schedule, ensure_ascii=False)
        return filled | {"kind": "json", "value": value}
    return filled | _schedule_texts(row.schedule, filled["start"])


def form_field(error: InvalidField) -> str:
    """Return the field of the form that an error of ``set`` belongs to."""
    known = {"schedule": "value", "at": "value", "policies": "misfire"}
    name = known.get(error.field, error.field)
    return name if name in NAMES else "name"


def preview(
    schedules: Schedules, asked: Mapping[str, str], *, count: int = 5
) -> Preview:
    """Return what a form would do, and which field is wrong; ask no server."""
    words, runs = "", []
    try:
        named = {"name": "preview", "task": "preview"}
        filled = {**asked, **{k: asked.get(k) or one for k, one in named.items()}}
        options = arguments(filled, zone=schedules.app.timezone)
        keys = ("name", "start", "end")
        when: dict[str, Any] = {key: options.get(key) for key in keys}
        when["once"] = bool(options.get("once"))
        runs = schedules.next_runs(options["schedule"], **when, count=count)
        words = schedules.timings.words(schedules.draft(options["schedule"], **when))
        if not str(asked.get("task") or "").strip():
            return Preview(words, runs)  # without a task it cannot be checked yet
        schedules.check(
            options["name"],
            task=options["task"],
            schedule=options["schedule"],
            policies={key: options.get(key) for key in STORED},
            **{
                key: options[key]
                for key in ("args", "kwargs", "options", "run", "start", "end", "once")
                if key in options
            },
        )
    except InvalidField as error:
        return Preview(words, runs, form_field(error), str(error))
    except Misconfigured as error:
        return Preview(words, runs, None, str(error))
    return Preview(words, runs)


def _schedule(asked: Mapping[str, str], zone: tzinfo) -> dict[str, Any]:
    kind, value = asked["kind"], asked["value"]
    if kind not in KINDS:
        refuse("kind", kind, f"one of {', '.join(KINDS)}")
    document: dict[str, Any]
    if kind == "every":
        document = {"every": _number("value", value)}
    elif kind == "once":
        at = _instant("value", value, zone)
        document = {"once": at.isoformat()}
    elif kind == "solar":
        document = _solar(value)
    elif kind == "recurrence":
        document = {"recurrence": _json("value", value, {})}
    elif kind == "json":
        document = _json("value", value, {})
    else:
        document = {kind: value}
    return _with_options(kind, document, asked)


def _with_options(
    kind: str, document: dict[str, Any], asked: Mapping[str, str]
) -> dict[str, Any]:
    inner = document["recurrence"] if kind == "recurrence" else document
    if kind in {"cron", "rrule", "recurrence"} and asked["zone"]:
        inner.setdefault("zone", asked["zone"])
    elif kind == "crontab" and asked["zone"]:
        refuse("zone", asked["zone"], "none with crontab: it goes by the app's; cron")
    for name, kinds in (("calendar", ("cron", "recurrence")), ("days", ("cron",))):
        if asked[name] and kind not in kinds:
            refuse(name, asked[name], f"none but with {' and '.join(kinds)}")
        if asked[name]:
            inner.setdefault(name, asked[name])
    if kind == "rrule" and asked["start"]:
        document["start"] = asked["start"]
    if asked["jitter"]:
        document["jitter"] = _number("jitter", asked["jitter"])
    if asked["splay"].lower() in ON - {"1"}:
        document["splay"] = True
    elif asked["splay"].lower() not in OFF - {"0"}:
        document["splay"] = _number("splay", asked["splay"])
    return document


def _solar(value: str) -> dict[str, Any]:
    parts = value.replace(",", " ").split()
    if len(parts) != 3:  # noqa: PLR2004  # event, latitude, longitude
        refuse("value", value, "an event, latitude and longitude: sunrise 48.85 2.35")
    event, lat, lon = parts
    return {
        "solar": event,
        "lat": _number("value", lat),
        "lon": _number("value", lon),
    }


def _schedule_texts(document: dict[str, Any], start: str) -> dict[str, str]:
    """Return kind, value and options; JSON where the fields could not say it."""
    [kind] = [one for one in schedule_json.OPTIONS if one in document]
    whole = {"kind": "json", "value": json.dumps(document)}
    inner = {"start", "end"} & {*document} - ({"start"} if kind == "rrule" else set())
    if inner or {"key", "relative"} & {*document} or (kind == "rrule" and start):
        return whole
    texts = {"kind": kind, "value": str(document[kind])}
    for name in ("zone", "calendar", "days", "jitter"):
        if name in document:
            texts[name] = str(document[name])
    if "splay" in document:
        texts["splay"] = "on" if document["splay"] is True else str(document["splay"])
    if kind == "rrule":
        texts["start"] = document["start"]
    elif kind == "solar":
        texts["value"] += f" {document['lat']} {document['lon']}"
    elif kind == "recurrence":
        texts["value"] = json.dumps(document[kind])
    return texts


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        refuse("zone", name, "a name of the tz database, as Europe/Paris")


def _instant(field: str, text: str, zone: tzinfo) -> datetime:
    instant = moment_of(text, zone)
    if instant is None:
        refuse(field, text, "an instant, as 2026-11-23 10:00")
    return instant


def _json(field: str, text: str, empty: Any) -> Any:
    if not text:
        return empty
    kind = "list" if isinstance(empty, list) else "object"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(field, text, f"a JSON {kind} ({error})")
    if not isinstance(document, type(empty)):
        refuse(field, text, f"a JSON {kind}")
    return document


def _number(field: str, text: str) -> float:
    try:
        return schedule_json.number(float(text))
    except ValueError:
        refuse(field, text, "a number")


def _whole(field: str, text: str) -> int:
    if not text.isdecimal():
        refuse(field, text, "a whole number")
    return int(text)


def _switch(field: str, text: str) -> bool:
    if text.lower() not in ON | OFF:
        refuse(field, text, "on or off")
    return text.lower() in ON


READ: Mapping[str, Callable[[str, str], float]] = {
    "timeout": _number,
    "grace": _number,
    "catch_up": _whole,
    "version": _whole,
}
