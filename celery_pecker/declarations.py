"""A Celery app's ``beat_schedule``, read into entries and checked (I11)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import BaseSchedule, crontab, schedule, solar

from celery_pecker.errors import Misconfigured
from celery_pecker.recurrence import period_us, recurrence
from celery_pecker.schedules.misfire import default_grace_us
from celery_pecker.schedules.model import Delivery, Entry, Misfire, Policy

Kind = TypeVar("Kind", Delivery, Misfire)

SECOND = 1_000_000
SHORTEST = 0.1
"""Seconds: the shortest period."""
TEN_YEARS = 10 * 366 * 86_400
"""Seconds: the longest period, timeout and grace."""
DEEPEST = 1_000
"""Slots: the most that may be caught up."""
MINUTE_US = 60 * SECOND
"""From here on a lost slot hurts more than a second write costs."""
LONGEST = 1_000
"""Bytes in the name of an entry: it is the key of an index, and part of each claim."""
POLICIES = ("timeout", "delivery", "misfire", "grace", "catch_up")
KEYS = ("task", "schedule", "args", "kwargs", "options", "relative", "pecker")
_TWINS = "_pecker_twins"


class PeckerEntry(ScheduleEntry):
    """Celery's entry, which may carry policies of ours under ``pecker``."""

    def __init__(
        self, *args: Any, pecker: Mapping[str, object] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        options: dict[str, Any] = dict(self.options or {})
        given = options.pop("pecker", None)
        self.options = options
        self.pecker: Mapping[str, object] | None = pecker if given is None else given


def check_given(beat_schedule: Any) -> None:
    """Refuse entries that Celery itself would answer with a bare TypeError."""
    if not isinstance(beat_schedule, Mapping):
        message = (
            f"beat_schedule is {beat_schedule!r}; allowed is a dict of entries by name"
        )
        raise Misconfigured(message)
    for name, given in beat_schedule.items():
        where = f"beat_schedule[{name!r}]"
        if not _storable(name):
            message = (
                f"{where[:200]}: the name must be a string of 1 to {LONGEST} bytes of"
                " UTF-8 without NUL"
            )
            raise Misconfigured(message)
        if not isinstance(given, ScheduleEntry):
            _check_one(where, given)


def _storable(name: object) -> bool:
    """Whether PostgreSQL can store the name, and index it."""
    if not isinstance(name, str) or "\0" in name:
        return False
    try:
        return 0 < len(name.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False


def _check_one(where: str, given: object) -> None:
    if not isinstance(given, Mapping):
        message = f"{where} is {given!r}; allowed is a dict of {', '.join(KEYS)}"
        raise Misconfigured(message)
    for key in given:
        if key not in KEYS:
            message = f"{where} has no key {key!r}; allowed are {', '.join(KEYS)}"
            raise Misconfigured(message)
    for key in ("task", "schedule"):
        if given.get(key) in (None, ""):
            message = f"{where} has no {key!r}"
            raise Misconfigured(message)
    _check_schedule(where, given["schedule"])
    for key, kind, allowed in (
        ("task", str, "the name of a task"),
        ("args", Iterable, "a list or tuple"),
        ("kwargs", Mapping, "a dict"),
        ("options", Mapping, "a dict of options of apply_async"),
    ):
        value = given.get(key)
        if value is not None and not isinstance(value, kind):
            message = f"{where}[{key!r}] is {value!r}; allowed is {allowed}"
            raise Misconfigured(message)
    headers = (given.get("options") or {}).get("headers")
    if headers is not None and not isinstance(headers, Mapping):
        message = f"{where}['options']['headers'] is {headers!r}; allowed is a dict"
        raise Misconfigured(message)


def _check_schedule(where: str, given: object) -> None:
    """Refuse what is neither a schedule nor a length of time, or no real one."""
    if hasattr(given, "is_due"):
        return
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        message = (
            f"{where}: schedule is {given!r}; allowed are seconds, a timedelta,"
            " crontab, solar or another celery schedule"
        )
        raise Misconfigured(message)
    if math.isnan(seconds) or not SHORTEST <= seconds <= TEN_YEARS:
        message = (
            f"{where}: schedule is every {seconds:g} s; allowed are {SHORTEST} s to"
            " ten years"
        )
        raise Misconfigured(message)


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
    _check_schedule(where, given)
    every_us = None
    if _plain(given):  # a relative one too, which is no grid
        _check_schedule(where, given.run_every)
        every_us = int(given.run_every.total_seconds() * SECOND + 0.5)
    policy = _policy(where, getattr(declared, "pecker", None), given, every_us)
    if policy.grace_us is None and isinstance(given, crontab):
        starting = _seconds("", "beat_cron_starting_deadline", conf)
        if starting is not None:
            policy = _with_grace(policy, starting)
    period = period_us(given)
    return Entry(
        name=name,
        task=str(declared.task),
        described=str(given),
        policy=policy,
        period_us=period,
        recurrence=recurrence(given, app, name) if period is None else None,
    )


def _with_grace(policy: Policy, grace_us: int) -> Policy:
    return Policy(
        delivery=policy.delivery,
        misfire=policy.misfire,
        timeout_us=policy.timeout_us,
        grace_us=grace_us,
        depth=policy.depth,
    )


def _policy(where: str, given: object, recurs: object, period: int | None) -> Policy:
    where = f"{where}['pecker']"
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        message = f"{where} is {given!r}; allowed is a dict of {', '.join(POLICIES)}"
        raise Misconfigured(message)
    for key in given:
        if key not in POLICIES:
            message = (
                f"{where} has no policy {key!r}; allowed are {', '.join(POLICIES)}"
            )
            raise Misconfigured(message)
    misfire = _choice(where, "misfire", given, Misfire, Misfire.COALESCE)
    timeout_us = _seconds(where, "timeout", given)
    if timeout_us is not None and period is not None and timeout_us > period:
        message = (
            f"{where}['timeout'] is {timeout_us / SECOND:g} s; allowed is up to the"
            f" period, {period / SECOND:g} s, so that no two runs overlap"
        )
        raise Misconfigured(message)
    grace_us = _seconds(where, "grace", given)
    depth = given.get("catch_up")
    if depth is not None and misfire is not Misfire.CATCH_UP:
        message = f"{where}['catch_up'] goes with 'misfire': 'catch_up' only"
        raise Misconfigured(message)
    if misfire is Misfire.CATCH_UP:
        depth = 10 if depth is None else depth
        whole = isinstance(depth, int) and not isinstance(depth, bool)
        if not whole or not 1 <= depth <= DEEPEST:
            message = (
                f"{where}['catch_up'] is {depth!r}; allowed are 1 to {DEEPEST} slots"
            )
            raise Misconfigured(message)
    return Policy(
        delivery=_choice(
            where, "delivery", given, Delivery, _default_delivery(recurs, period)
        ),
        misfire=misfire,
        timeout_us=timeout_us,
        grace_us=default_grace_us(misfire, period) if grace_us is None else grace_us,
        depth=depth or 1,
    )


def _plain(given: object) -> bool:
    """Whether its instants are Celery's own, one ``run_every`` after another."""
    return (
        isinstance(given, schedule)
        and type(given).is_due is schedule.is_due
        and type(given).remaining_estimate is schedule.remaining_estimate
    )


def _default_delivery(given: object, period: int | None) -> Delivery:
    seldom = (
        period >= MINUTE_US
        if period is not None
        else isinstance(given, (crontab, solar))
    )
    return Delivery.AT_LEAST_ONCE if seldom else Delivery.AT_MOST_ONCE


def _choice(
    where: str,
    key: str,
    given: Mapping[str, object],
    kind: type[Kind],
    default: Kind,
) -> Kind:
    value = given.get(key, default)
    for one in kind:
        if value == one:
            return one
    allowed = ", ".join(repr(one.value) for one in kind)
    message = f"{where}[{key!r}] is {value!r}; allowed are {allowed}"
    raise Misconfigured(message)


def _seconds(where: str, key: str, given: Mapping[str, object]) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not 1 / SECOND <= seconds <= TEN_YEARS  # never true of NaN
    ):
        named = f"{where}[{key!r}]" if where else key
        message = (
            f"{named} is {value!r}; allowed are seconds above zero, up to ten years"
        )
        raise Misconfigured(message)
    return int(seconds * SECOND)


def watch_for_twins() -> None:
    """Remember when ``add_periodic_task`` replaces an entry by a different one.

    Celery lets the second silently win. Called once by the command line, before the
    app is loaded; it only looks on.
    """
    celery: Any = Celery  # what it has no event for is not in its types either
    original = celery._add_periodic_task  # noqa: SLF001
    if getattr(original, "watches", False):
        return

    def watching(
        self: Any, key: str, entry: Mapping[str, Any], name: str | None = None
    ) -> None:
        before = self._conf.beat_schedule.get(key)
        if before is not None and not _alike(before, entry):
            self.__dict__.setdefault(_TWINS, []).append(key)
        original(self, key, entry, name=name)

    watching.watches = True  # type: ignore[attr-defined]
    celery._add_periodic_task = watching  # noqa: SLF001


def refuse_twins(app: Celery) -> None:
    """Refuse an app in which two different entries have one name."""
    twins = app.__dict__.get(_TWINS, [])
    if twins:
        message = (
            f"beat_schedule has two different entries named {twins[0]!r}: the second"
            " would silently replace the first; give one of them another name"
        )
        raise Misconfigured(message)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both would send the same message at the same instants."""
    first, second = _told(one), _told(other)
    return _recurs_alike(first.pop("schedule"), second.pop("schedule")) and all(
        first[key] == second[key] or repr(first[key]) == repr(second[key])
        for key in first
    )


def _told(entry: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(entry)
    return {
        "schedule": given.get("schedule"),
        "relative": bool(given.get("relative")),
        "task": given.get("task"),
        "args": [*(given.get("args") or ())],
        "kwargs": dict(given.get("kwargs") or {}),
        "options": dict(given.get("options") or {}),
        "pecker": given.get("pecker"),
    }


def _recurs_alike(one: object, other: object) -> bool:
    """Compare schedules; BaseSchedule's own ``==`` knows no fields of subclasses."""
    if isinstance(one, (int, float)):
        one = timedelta(seconds=one)
    if isinstance(other, (int, float)):
        other = timedelta(seconds=other)
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseSchedule) and not isinstance(one, solar):
        return _fields(one) == _fields(other)
    return one == other


def _fields(given: object) -> dict[str, object]:
    derived = {"_app", "tz", "utc_enabled"}
    return {key: it for key, it in vars(given).items() if key not in derived}
