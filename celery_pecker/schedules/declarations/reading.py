"""The entries that a scheduler works with, and what stands under their ``pecker``."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars import CalendarSchedule
from celery_pecker.kernel.declared import is_number, is_whole
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.declarations.validation import TEN_YEARS, check_schedule
from celery_pecker.schedules.engine.misfire import default_grace_us
from celery_pecker.schedules.engine.model import (
    Delivery,
    Entry,
    Misfire,
    Policy,
    RunMode,
)
from celery_pecker.schedules.recurrence import (
    described,
    in_words,
    period_us,
    recurrence,
)

YEAR = 31_536_000
"""Seconds: a longer countdown counts as this one."""


def entries(
    declared: Mapping[str, ScheduleEntry], app: Celery, *, conf: Mapping[str, Any]
) -> list[Entry]:
    """Return the checked entries of an app."""
    return [_entry(name, entry, app, conf) for name, entry in declared.items()]


def _entry(
    name: str, declared: ScheduleEntry, app: Celery, conf: Mapping[str, Any]
) -> Entry:
    where = f"beat_schedule[{name!r}]"
    recurs: Any = declared.schedule
    check_schedule(where, recurs)
    every_us = None
    if _plain(recurs):  # a relative one too, which is no grid
        check_schedule(where, recurs.run_every)
        every_us = int(recurs.run_every.total_seconds() * SECOND + 0.5)
        if getattr(recurs, "relative", False) and every_us < SECOND:
            # Celery rounds such an instant down to its second: it lies before the last.
            raise Misconfigured(
                f"{where}: schedule is every {every_us / SECOND:g} s, relative; allowed"
                " with relative is 1 s or more: Celery rounds to whole seconds"
            )
    period = period_us(recurs)
    return Entry(
        name=name,
        task=str(declared.task),
        described=described(recurs),
        words=in_words(recurs, app, name),
        policy=policy(
            f"{where}['pecker']",
            getattr(declared, "pecker", None),
            recurs,
            every_us,
            conf=conf,
        ),
        period_us=period,
        recurrence=recurrence(recurs, app, name) if period is None else None,
        countdown_us=_countdown_us((declared.options or {}).get("countdown")),
    )


def _countdown_us(countdown: object) -> int | None:
    """Return the microseconds of a countdown; Celery refuses what is none."""
    if not isinstance(countdown, int | float) or not countdown > 0:
        return None
    return int(min(countdown, YEAR) * SECOND)


def _plain(recurs: object) -> bool:
    """Return whether its instants are Celery's own, one ``run_every`` after another."""
    return (
        isinstance(recurs, schedule)
        and type(recurs).is_due is schedule.is_due
        and type(recurs).remaining_estimate is schedule.remaining_estimate
    )


Kind = TypeVar("Kind", Delivery, Misfire, RunMode)

DEEPEST = 1_000
"""Slots: the most that may be caught up."""
MINUTE_US = 60 * SECOND
"""From here on a lost slot hurts more than a second write costs."""
LOCAL_SHARE = 0.9
"""Of the period: the timeout of a local run that was given none, so that its thread
is free, and its deadline over, when the next slot comes."""
STORED = ("timeout", "delivery", "misfire", "grace", "catch_up")
"""Policies of a stored schedule, whose `run` is a column."""
POLICIES = (*STORED, "run")


def policy(
    where: str,
    options: object,
    recurs: object,
    period: int | None,
    *,
    conf: Mapping[str, Any],
) -> Policy:
    """Return the checked policy of an entry.

    ``where`` is how people write it; empty for a stored schedule, whose policies are
    fields. ``recurs`` is its schedule, ``period`` that of a grid in microseconds.

    Raises:
        Misconfigured: one of it is not allowed; InvalidField where that is a policy.
    """
    read = _read(where, {} if options is None else options, recurs, period)
    if read.grace_us is None and isinstance(recurs, crontab):
        starting = _seconds("", "beat_cron_starting_deadline", conf)
        if starting is not None:
            return replace(read, grace_us=starting)
    return read


def _read(where: str, options: object, recurs: object, period: int | None) -> Policy:
    if not isinstance(options, Mapping):
        Misconfigured.refuse(where, options, f"is a dict of {', '.join(POLICIES)}")
    for key in options:
        if key not in POLICIES:
            raise Misconfigured(
                f"{where} has no policy {key!r}; allowed are {', '.join(POLICIES)}"
            )
    # What a policy depends on comes before it.
    run = _choice(where, "run", options, RunMode, RunMode.DISPATCH)
    misfire = _choice(where, "misfire", options, Misfire, Misfire.COALESCE)
    if run is RunMode.LOCAL and misfire is Misfire.CATCH_UP:
        # Several slots of one entry at one moment: all but the first would be missed.
        allowed = (
            "allowed with 'run': 'local' are 'skip' and 'coalesce': a worker runs one"
            " slot of an entry at a time"
        )
        _refuse(where, "misfire", f"is 'catch_up'; {allowed}")
    depth = _depth(where, options, misfire)
    timeout_us = _timeout(where, options, run, period)
    delivery = _delivery(where, options, run, recurs, period)
    grace_us = _seconds(where, "grace", options)
    return Policy(
        delivery=delivery,
        misfire=misfire,
        timeout_us=timeout_us,
        grace_us=default_grace_us(misfire, period) if grace_us is None else grace_us,
        depth=depth,
        run=run,
    )


def _timeout(
    where: str, options: Mapping[str, object], run: RunMode, period: int | None
) -> int | None:
    timeout_us = _seconds(where, "timeout", options)
    if timeout_us is None and run is RunMode.LOCAL and period is not None:
        return int(period * LOCAL_SHARE)
    if timeout_us is not None and period is not None and timeout_us > period:
        allowed = f"the period, {period / SECOND:g} s, so that no two runs overlap"
        problem = f"is {timeout_us / SECOND:g} s; allowed is up to {allowed}"
        _refuse(where, "timeout", problem)
    return timeout_us


def _depth(where: str, options: Mapping[str, Any], misfire: Misfire) -> int:
    depth = options.get("catch_up")
    if misfire is not Misfire.CATCH_UP:
        if depth is not None:
            _refuse(where, "catch_up", "goes with 'misfire': 'catch_up' only")
        return 1
    depth = 10 if depth is None else depth
    if not is_whole(depth, 1, DEEPEST):
        _refuse(where, "catch_up", f"is {depth!r}; allowed are 1 to {DEEPEST} slots")
    return int(depth)


def _delivery(
    where: str,
    options: Mapping[str, object],
    run: RunMode,
    recurs: object,
    period: int | None,
) -> Delivery:
    if run is RunMode.DISPATCH:
        default = _default_delivery(recurs, period)
        return _choice(where, "delivery", options, Delivery, default)
    delivery = _choice(where, "delivery", options, Delivery, Delivery.AT_MOST_ONCE)
    if delivery is Delivery.AT_LEAST_ONCE:
        # Another replica can send a message again; a local run cannot be repeated.
        allowed = (
            "allowed with 'run': 'local' is 'at_most_once': a run that was begun in a"
            " worker ends with that worker"
        )
        _refuse(where, "delivery", f"is 'at_least_once'; {allowed}")
    return delivery


def _default_delivery(recurs: object, period: int | None) -> Delivery:
    if isinstance(recurs, CalendarSchedule):
        seldom = not recurs.frequent
    elif period is not None:
        seldom = period >= MINUTE_US
    else:
        seldom = isinstance(recurs, (crontab, solar))
    return Delivery.AT_LEAST_ONCE if seldom else Delivery.AT_MOST_ONCE


def _choice(
    where: str,
    key: str,
    options: Mapping[str, Any],
    kind: type[Kind],
    default: Kind,
) -> Kind:
    value = options.get(key, default)
    allowed = [one.value for one in kind]
    if value not in allowed:
        _refuse(where, key, f"is {value!r}; allowed are {str(allowed)[1:-1]}")
    return kind(value)


def _seconds(where: str, key: str, options: Mapping[str, Any]) -> int | None:
    value = options.get(key)
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_number(seconds, 1 / SECOND, TEN_YEARS):
        allowed = "seconds above zero, up to ten years"
        _refuse(where, key, f"is {value!r}; allowed are {allowed}")
    return int(seconds * SECOND)


def _refuse(where: str, key: str, problem: str) -> NoReturn:
    message = f"{where}[{key!r}] {problem}" if where else f"{key} {problem}"
    if key in POLICIES:
        raise InvalidField(message, field=key)
    raise Misconfigured(message)
