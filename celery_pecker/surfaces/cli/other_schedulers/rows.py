"""The tables of django-celery-beat and of sqlalchemy-celery-beat, as schedules.

Both have one row for each task and one for each schedule. They name the tables, and
the way from the one to the other, by different words; the columns are the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery_pecker.kernel.clock import to_us
from celery_pecker.surfaces.cli.other_schedulers.tables import Read, Row
from celery_pecker.surfaces.cli.other_schedulers.values import (
    ForeignSchedule,
    NotImportable,
    crontab,
    decoded,
    instant,
    iso,
)

KINDS = ("interval", "crontab", "solar", "clocked")
UNITS = ("days", "hours", "minutes", "seconds", "microseconds")
Find = Callable[[Row], tuple[str, Row]]


@dataclass(frozen=True, slots=True)
class Zones:
    """Time zones that are not in the tables."""

    plain: tzinfo
    """Of instants that are stored without one."""
    app: str
    """The name of the app's own, by which its crontabs go."""


def django(read: Read, zones: Zones) -> Iterator[ForeignSchedule]:
    """Yield the schedules of django-celery-beat."""
    kinds = {kind: _by_id(read(f"django_celery_beat_{kind}schedule")) for kind in KINDS}

    def find(row: Row) -> tuple[str, Row]:
        for kind in KINDS:
            key = row.get(f"{kind}_id")
            if key is not None:
                return kind, _one(kinds[kind], kind, key)
        raise NotImportable(
            "no schedule: interval, crontab, solar and clocked are all null"
        )

    for row in read("django_celery_beat_periodictask"):
        foreign = _foreign(row, find, zones)
        if foreign.problem is None:
            _like_django(foreign, row, zones.plain)
        yield foreign


def sqlalchemy(read: Read, zones: Zones) -> Iterator[ForeignSchedule]:
    """Yield the schedules of sqlalchemy-celery-beat."""
    kinds = {kind: _by_id(read(f"celery_{kind}schedule")) for kind in KINDS}

    def find(row: Row) -> tuple[str, Row]:
        kind = str(row.get("discriminator")).removesuffix("schedule")
        if kind not in kinds:
            raise NotImportable(
                f"discriminator is {row.get('discriminator')!r}; allowed is"
                f" {', '.join(f'{one}schedule' for one in KINDS)}"
            )
        return kind, _one(kinds[kind], kind, row.get("schedule_id"))

    for row in read("celery_periodictask"):
        yield _foreign(row, find, zones)


def _foreign(row: Row, find: Find, zones: Zones) -> ForeignSchedule:
    foreign = ForeignSchedule(name=str(row["name"]))
    zone = zones.plain
    try:
        kind, one = find(row)
        _options(foreign, row, zone)
        foreign.fields |= {
            "task": row["task"],
            "schedule": _schedule(kind, one, zones),
            "args": decoded("args", row.get("args"), []),
            "kwargs": decoded("kwargs", row.get("kwargs"), {}),
            "start": instant("start_time", row.get("start_time"), zone),
            "once": bool(row.get("one_off")) and kind != "clocked",
            "paused": not row["enabled"],
        }
        _once(foreign, row, kind)
        if kind == "clocked":
            _alone(foreign)
        last = instant("last_run_at", row.get("last_run_at"), zone)
    except NotImportable as error:
        foreign.problem = str(error)
        return foreign
    foreign.last_us = None if last is None else to_us(last)
    if row.get("description"):
        foreign.note("description is not imported: schedules have none here")
    return foreign


def _like_django(foreign: ForeignSchedule, row: Row, zone: tzinfo) -> None:
    """Do as django-celery-beat does beside what its tables say.

    It names the schedule in a header of each message, by which django-celery-results
    finds it; a schedule that never ran counts from its last change.
    """
    headers = foreign.fields["options"].setdefault("headers", {})
    headers["periodic_task_name"] = foreign.name
    never = foreign.last_us is None and "once" not in foreign.fields["schedule"]
    if never and not foreign.fields["paused"] and not row["start_time"]:
        changed = instant("date_changed", row.get("date_changed"), zone)
        foreign.last_us = None if changed is None else to_us(changed)


def _options(foreign: ForeignSchedule, row: Row, zone: tzinfo) -> None:
    options: dict[str, Any] = {
        key: row[key]
        for key in ("queue", "exchange", "routing_key", "priority")
        if row.get(key) not in {None, ""}
    }
    headers = decoded("headers", row.get("headers"), {})
    if not isinstance(headers, dict):
        raise NotImportable(f"headers is {headers!r}; allowed is a JSON object")
    if headers:
        options["headers"] = headers
    if row.get("expire_seconds"):
        options["expires"] = row["expire_seconds"]
    expires = instant("expires", row.get("expires"), zone)
    if expires is not None:
        # It ends the schedule there, and what is sent before expires then too.
        options["expires"] = iso(expires)
    foreign.fields |= {"options": options, "end": expires}


def _once(foreign: ForeignSchedule, row: Row, kind: str) -> None:
    """Leave out what was to run once and has run."""
    if not row.get("one_off"):
        if kind == "clocked":
            foreign.note("one_off is false of a clocked schedule: it runs once here")
        return
    if row.get("total_run_count"):
        raise NotImportable("one_off, and it has run: nothing is left to run")
    if foreign.fields["paused"]:
        foreign.note(
            "one_off and not enabled: it may have run there, since those that have run"
            " are switched off; it is paused here and never runs unless it is resumed"
        )


def _alone(foreign: ForeignSchedule) -> None:
    """Leave out what a schedule of one instant cannot have beside it here."""
    for field, column in (("start", "start_time"), ("end", "expires")):
        if foreign.fields[field] is not None:
            foreign.note(f"{column} is not imported: a clocked schedule runs once")
            foreign.fields[field] = None


def _schedule(kind: str, one: Row, zones: Zones) -> dict[str, Any]:
    if kind == "interval":
        return {"every": _seconds(one)}
    if kind == "crontab":
        text = crontab(
            one["minute"],
            one["hour"],
            one["day_of_month"],
            one["month_of_year"],
            one["day_of_week"],
        )
        own = str(one.get("timezone") or "UTC")
        if own == zones.app:
            return {"crontab": text}
        # Celery's crontab goes by the app's zone; in both a day must be of the month
        # and of the week where both are named.
        return {"cron": text, "zone": own, "days": "both"}
    if kind == "solar":
        return {
            "solar": _plain(one["event"]),
            "lat": float(one["latitude"]),
            "lon": float(one["longitude"]),
        }
    at: datetime | None = instant("clocked_time", one["clocked_time"], zones.plain)
    if at is None:
        raise NotImportable("clocked_time is null; allowed is an instant")
    return {"once": iso(at)}


def _seconds(one: Row) -> int | float:
    unit, every = _plain(one["period"]), one["every"]
    if unit not in UNITS:
        raise NotImportable(f"period is {unit!r}; allowed is {', '.join(UNITS)}")
    seconds = timedelta(**{unit: every}).total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _plain(value: Any) -> str:
    """Return the text of a column, or of the member of an enum that it holds."""
    return str(getattr(value, "value", value)).lower()


def _by_id(rows: Sequence[Row]) -> dict[Any, Row]:
    return {row["id"]: row for row in rows}


def _one(rows: Mapping[Any, Row], kind: str, key: object) -> Row:
    if key not in rows:
        raise NotImportable(f"its {kind} schedule {key} is not in the tables")
    return rows[key]
