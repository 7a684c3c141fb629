"""The entries that a scheduler works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from celery_pecker.declarations.policies import policy
from celery_pecker.declarations.validation import check_schedule
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.lease import SECOND
from celery_pecker.recurrence import described, in_words, period_us, recurrence
from celery_pecker.schedules.model import Entry


def entries(
    declared: Mapping[str, ScheduleEntry], app: Celery, *, conf: Mapping[str, Any]
) -> list[Entry]:
    """Return the checked entries of an app."""
    return [_entry(name, entry, app, conf) for name, entry in declared.items()]


def _entry(
    name: str, declared: ScheduleEntry, app: Celery, conf: Mapping[str, Any]
) -> Entry:
    where = f"beat_schedule[{name!r}]"
    given: Any = declared.schedule
    check_schedule(where, given)
    every_us = None
    if _plain(given):  # a relative one too, which is no grid
        check_schedule(where, given.run_every)
        every_us = int(given.run_every.total_seconds() * SECOND + 0.5)
        if getattr(given, "relative", False) and every_us < SECOND:
            # Celery rounds such an instant down to its second: it lies before the last.
            message = (
                f"{where}: schedule is every {every_us / SECOND:g} s, relative; allowed"
                " with relative is 1 s or more: Celery rounds to whole seconds"
            )
            raise Misconfigured(message)
    period = period_us(given)
    return Entry(
        name=name,
        task=str(declared.task),
        described=described(given),
        words=in_words(given, app, name),
        policy=policy(
            where, getattr(declared, "pecker", None), given, every_us, conf=conf
        ),
        period_us=period,
        recurrence=recurrence(given, app, name) if period is None else None,
    )


def _plain(given: object) -> bool:
    """Whether its instants are Celery's own, one ``run_every`` after another."""
    return (
        isinstance(given, schedule)
        and type(given).is_due is schedule.is_due
        and type(given).remaining_estimate is schedule.remaining_estimate
    )
