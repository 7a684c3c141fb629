"""The fields of a cron expression: which numbers each of them names. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from celery_pecker.calendars.checks import refuse

MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAY_NAMES = (
    *("Sunday", "Monday", "Tuesday", "Wednesday"),
    *("Thursday", "Friday", "Saturday"),
)
MONTHS, DAYS = (
    tuple(name[:3].lower() for name in names) for names in (MONTH_NAMES, DAY_NAMES)
)
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A field: its name, its least and greatest number, names for numbers."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    @property
    def full(self) -> int:
        """How many numbers there are."""
        return self.most - self.least + 1


DAY = Kind("day of the month", 1, 31)
WEEKDAY = Kind("day of the week", 0, 6, DAYS)
KINDS = (
    *(Kind("second", 0, 59), Kind("minute", 0, 59), Kind("hour", 0, 23)),
    *(DAY, Kind("month", 1, 12, MONTHS), WEEKDAY),
)


@dataclass(frozen=True, slots=True)
class Fields:
    """The numbers of the six fields, in order; days of the week from Sunday, 0."""

    second: tuple[int, ...]
    minute: tuple[int, ...]
    hour: tuple[int, ...]
    day: tuple[int, ...]
    month: tuple[int, ...]
    weekday: tuple[int, ...]

    @property
    def any_day(self) -> bool:
        """Whether the days of the month are all named."""
        return len(self.day) == DAY.full

    @property
    def any_weekday(self) -> bool:
        """Whether the days of the week are all named."""
        return len(self.weekday) == WEEKDAY.full


def parse(what: str, text: object) -> Fields:
    """Return the fields of an expression; without seconds they are zero."""
    if not isinstance(text, str):
        refuse(what, "the expression", text, "a text of five or six fields")
    parts = MACROS.get(text.strip().lower(), text).split()
    if len(parts) == len(KINDS) - 1:
        parts.insert(0, "0")
    if len(parts) != len(KINDS):
        allowed = (
            "five fields (minute, hour, day of the month, month, day of the week), six"
            f" with seconds first, or one of {', '.join(MACROS)}"
        )
        refuse(what, "the expression", text, allowed)
    pairs = zip(KINDS, parts, strict=True)
    return Fields(*(numbers(what, kind, part) for kind, part in pairs))


def crontab_parts(crontab: Any) -> tuple[Any, ...]:
    """Return the fields that a crontab of Celery's was made of, kept for pickles."""
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return tuple(getattr(crontab, f"_orig_{name}") for name in names)


def numbers(what: str, kind: Kind, text: str) -> tuple[int, ...]:
    """Return the numbers that one field names, in order."""
    chosen: set[int] = set()
    for part in text.split(","):
        chosen.update(_part(what, kind, text, part))
    return tuple(sorted(chosen))


def _part(what: str, kind: Kind, text: str, part: str) -> Iterator[int]:
    body, slash, step_text = part.partition("/")
    step = int(step_text) if step_text.isdecimal() else 0
    low_text, dash, high_text = body.partition("-")
    if body == "*":
        low, high = kind.least, kind.most
    else:
        low = _number(kind, low_text)
        high = _number(kind, high_text) if dash else low
    steps = bool(slash) and (body == "*" or bool(dash)) and 1 <= step <= kind.full
    if min(low, high) < 0 or (slash and not steps):
        _refuse(what, kind, text)
    if low > high:  # as Celery's crontab has it: fri-mon, 22-2
        high += kind.full
    for number in range(low, high + 1, step if slash else 1):
        yield (number - kind.least) % kind.full + kind.least


def _number(kind: Kind, text: str) -> int:
    """Return the number that a text means; -1: none."""
    if kind.names and text[:3].lower() in kind.names and text.isalpha():
        return kind.names.index(text[:3].lower()) + kind.least
    if not text.isascii() or not text.isdecimal():
        return -1
    number = int(text)
    if kind is WEEKDAY and number == len(DAYS):
        return number  # Sunday: 0 or 7
    return number if kind.least <= number <= kind.most else -1


def _refuse(what: str, kind: Kind, text: str) -> None:
    allowed = f"{kind.least} to {7 if kind is WEEKDAY else kind.most}"
    if kind.names:
        allowed += f", {kind.names[0]} to {kind.names[-1]}"
    forms = "*, */2, 1-5, 1-5/2 and lists of these with commas"
    refuse(what, f"the {kind.name}", text, f"{allowed}, as {forms}")
