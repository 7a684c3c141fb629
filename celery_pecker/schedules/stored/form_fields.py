"""The fields of the form for stored schedules: names, labels, help, choices."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of schedule, and what its value is called and looks like."""

    label: str
    value: str
    example: str
    hint: str


KINDS = {
    "every": Kind("every so many seconds", "Seconds", "30", "0.1 or more"),
    "cron": Kind(
        "cron, with seconds and a time zone",
        "Cron",
        "0 4 * * mon",
        "Minute, hour, day, month, weekday; six fields begin with seconds",
    ),
    "crontab": Kind(
        "Celery's crontab",
        "Crontab",
        "0 4 * * mon",
        "As Celery's: minute, hour, day, month, weekday, in the app's time zone",
    ),
    "recurrence": Kind(
        "recurrence, by working days too",
        "Recurrence",
        '{"start": "2027-01-31 18:00", "level": "workday", "every": 2}',
        "A JSON object",
    ),
    "rrule": Kind(
        "RRULE of a calendar (RFC 5545)",
        "Rule",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "As calendars have it (RFC 5545); it needs a start",
    ),
    "solar": Kind(
        "sunrise, sunset …",
        "Event, latitude, longitude",
        "sunrise 48.85 2.35",
        "sunrise, sunset, solar_noon, dawn_civil, dusk_civil …",
    ),
    "once": Kind(
        "once, at an instant",
        "Instant",
        "2027-01-31 10:00",
        "Local time of the zone, or with an offset",
    ),
    "json": Kind(
        "the whole schedule as JSON",
        "Schedule",
        '{"every": 30}',
        "A JSON object with one key for its kind",
    ),
}
TIMED = tuple(kind for kind in KINDS if kind not in {"once", "json"})
BOUNDED = (*TIMED, "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form."""

    name: str
    label: str
    help: str = ""
    kind: Literal["text", "json", "choice", "check", "hidden"] = "text"
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False
    kinds: tuple[str, ...] = tuple(KINDS)
    """Kinds of schedules that it goes with."""


def _choices(*values: str) -> tuple[tuple[str, str], ...]:
    return (("", "default"), *((one, one.replace("_", " ")) for one in values))


FIELDS = (
    Field(name="name", label="Name", required=True),
    Field(name="task", label="Task", required=True),
    Field(
        name="kind",
        label="Kind of schedule",
        kind="choice",
        choices=tuple((kind, one.label) for kind, one in KINDS.items()),
        required=True,
    ),
    Field(
        name="value",
        label="Schedule",
        required=True,
        help="; ".join(f"{kind}: {one.example}" for kind, one in KINDS.items()),
    ),
    Field(
        name="zone",
        label="Time zone",
        help="as Europe/Paris; default the app's. Of naive instants too",
        kinds=tuple(kind for kind in KINDS if kind not in {"crontab", "json"}),
    ),
    Field(
        name="calendar",
        label="Working days",
        help="of cron and recurrence: a country, as CN or DE-BY",
        kinds=("cron", "recurrence"),
    ),
    Field(
        name="days",
        label="Days",
        kind="choice",
        choices=_choices("either", "both"),
        help="of cron, where days of the month and of the week are both named",
        kinds=("cron",),
    ),
    Field(
        name="jitter",
        label="Jitter",
        help="seconds, up to which each run is later",
        kinds=TIMED,
    ),
    Field(
        name="splay",
        label="Splay",
        help="seconds over which equal schedules are spread; of every: on",
        kinds=TIMED,
    ),
    Field(name="start", label="Start", help="no run lies before it", kinds=BOUNDED),
    Field(name="end", label="End", help="no run lies after it", kinds=BOUNDED),
    Field(name="once", label="Only the first run", kind="check", kinds=BOUNDED),
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
