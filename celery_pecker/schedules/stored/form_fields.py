"""The fields of the form for stored schedules: names, labels, help, choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KINDS = {
    "every": "every so many seconds",
    "cron": "cron, with seconds and a time zone",
    "crontab": "Celery's crontab",
    "recurrence": "recurrence, by working days too",
    "rrule": "RRULE of a calendar (RFC 5545)",
    "solar": "sunrise, sunset …",
    "once": "once, at an instant",
    "json": "the whole schedule as JSON",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form."""

    name: str
    label: str
    help: str = ""
    kind: Literal["text", "json", "choice", "check", "hidden"] = "text"
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False


def _choices(*values: str) -> tuple[tuple[str, str], ...]:
    return (("", "default"), *((one, one.replace("_", " ")) for one in values))


FIELDS = (
    Field(name="name", label="Name", required=True),
    Field(name="task", label="Task", required=True),
    Field(
        name="kind",
        label="Kind of schedule",
        kind="choice",
        choices=tuple(KINDS.items()),
        required=True,
    ),
    Field(
        name="value",
        label="Schedule",
        required=True,
        help=(
            "every: seconds; cron: 0 4 * * mon, or six fields with seconds first;"
            " crontab: five fields; recurrence: JSON as"
            ' {"start": "2026-03-23 18:00", "level": "workday", "every": 2}; rrule:'
            " FREQ=MONTHLY;BYDAY=-1FR, with a start; solar: sunrise 48.85 2.35; once:"
            " 2026-11-23 10:00"
        ),
    ),
    Field(
        name="zone",
        label="Time zone",
        help="as Europe/Paris; default the app's. Of naive instants too",
    ),
    Field(
        name="calendar",
        label="Working days",
        help="of cron and recurrence: a country, as CN or DE-BY",
    ),
    Field(
        name="days",
        label="Days",
        kind="choice",
        choices=_choices("either", "both"),
        help="of cron, where days of the month and of the week are both named",
    ),
    Field(name="jitter", label="Jitter", help="seconds, up to which each run is later"),
    Field(
        name="splay",
        label="Splay",
        help="seconds over which equal schedules are spread; of every: on",
    ),
    Field(name="start", label="Start", help="no run lies before it"),
    Field(name="end", label="End", help="no run lies after it"),
    Field(name="once", label="Only the first run", kind="check"),
    Field(name="args", label="Positional arguments", kind="json", help="a JSON list"),
    Field(name="kwargs", label="Arguments", kind="json", help="a JSON object"),
    Field(
        name="options",
        label="Options of the message",
        kind="json",
        help='a JSON object, as {"queue": "slow"}',
    ),
    Field(name="timeout", label="Timeout", help="seconds from the slot on"),
    Field(
        name="run",
        label="Runs",
        kind="choice",
        choices=_choices("dispatch", "local"),
        help="dispatch: any worker; local: the worker that wins the slot",
    ),
    Field(
        name="delivery",
        label="Delivery",
        kind="choice",
        choices=_choices("at_most_once", "at_least_once"),
    ),
    Field(
        name="misfire",
        label="Missed slots",
        kind="choice",
        choices=_choices("skip", "coalesce", "catch_up"),
    ),
    Field(
        name="grace", label="Grace", help="seconds after which a missed slot is not run"
    ),
    Field(
        name="catch_up", label="Catch up", help="how many missed slots are run at most"
    ),
    Field(name="paused", label="Paused", kind="check"),
    Field(name="version", label="Version", kind="hidden"),
)
NAMES = tuple(one.name for one in FIELDS)
