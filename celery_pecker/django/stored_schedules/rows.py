"""Rows of stored schedules with what the hot row says, read as replicas read them."""

from typing import Any

from django.db.models import Exists, OuterRef, Subquery
from django.db.models.functions import Now

from celery_pecker.django import databases
from celery_pecker.django.models import Declaration, HotRow
from celery_pecker.django.stored_schedules.store import reading, schedules
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.stored.model import Definition, ScheduleRow
from celery_pecker.schedules.stored.rows import DOCUMENTS, Current, in_utc

SAME = ("name", "task", "run", "once", *DOCUMENTS)
"""What `Definition` has of the same name."""
COLUMNS = (
    *("once_at", "removed_at", "created_at", "changed_at", "changed_by"),
    *("ran", "by_code"),
)
"""What `Current` has of the same name."""


def hot(**where: Any) -> Any:
    """Return the hot rows of the schedules of a query."""
    rows = HotRow.objects.using(databases.alias())
    return rows.filter(name=OuterRef("name"), **where)


def whole(rows: Any) -> Any:
    """Return schedules that were not removed, with what is known of their runs."""
    declared = Declaration.objects.using(databases.alias()).filter(
        name=OuterRef("name"), stored=False, declared_until__gt=Now()
    )
    return rows.filter(removed_at__isnull=True).annotate(
        executed_at=Subquery(hot().values("executed_at")[:1]),
        ran=Exists(hot(holder__isnull=False)),
        paused=Subquery(hot().values("paused")[:1]),
        by_code=Exists(declared),
        now=Now(),
    )


def row(schedule: Any) -> ScheduleRow:
    """Return a schedule of `whole` as people see it; what it costs is paid once."""
    known: ScheduleRow | None = getattr(schedule, "pecker_row", None)
    if known is None:
        known = schedule.pecker_row = reading().row(_current(schedule))
    return known


def readable(*parts: Any) -> bool:
    """Return whether schedulers can read a definition.

    Args:
        parts: schedule, policies, run, starts_at, ends_at; once_at of a single run.
    """
    *how, once_at = parts
    when = dict(zip(("schedule", "policies", "run", "start", "end"), how, strict=True))
    any_task: dict[str, Any] = {"name": "any", "task": "", "args": [], "kwargs": {}}
    wanted = Definition(**any_task, options={}, once=once_at is not None, **when)
    try:
        schedules().timings.entry(wanted, once_at)
    except Misconfigured:
        return False
    return True


def _current(schedule: Any) -> Current:
    definition = Definition(
        **{part: getattr(schedule, part) for part in SAME},
        start=in_utc(schedule.starts_at),
        end=in_utc(schedule.ends_at),
    )
    executed_at = schedule.executed_at
    return Current(
        now_us=to_us(schedule.now),
        who="",
        owner=None,
        definition=definition,
        stored_version=schedule.version,
        executed_us=None if executed_at is None else to_us(executed_at),
        stored_paused=schedule.paused,
        **{column: in_utc(getattr(schedule, column)) for column in COLUMNS},
    )
