"""A Celery app's ``beat_schedule``, read into entries and checked (I11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import BaseSchedule, crontab, solar

from celery_pecker.errors import Misconfigured
from celery_pecker.recurrence import period_us, recurrence
from celery_pecker.schedules.misfire import default_grace_us
from celery_pecker.schedules.model import Delivery, Entry, Misfire, Policy

Kind = TypeVar("Kind", Delivery, Misfire)

SECOND = 1_000_000
SHORTEST = 0.1
"""Seconds: the shortest period."""
MINUTE_US = 60 * SECOND
"""From here on a lost slot hurts more than a second write costs."""
POLICIES = ("timeout", "delivery", "misfire", "grace", "catch_up")
KEYS = ("task", "schedule", "args", "kwargs", "options", "relative", "pecker")
_TWINS = "_pecker_twins"


class PeckerEntry(ScheduleEntry):
    """Celery's entry, which may carry policies of ours under ``pecker``."""

    def __init__(
        self, *args: Any, pecker: Mapping[str, object] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.options = dict(self.options)
        given = self.options.pop("pecker", None)
        self.pecker: Mapping[str, object] | None = pecker if given is None else given


def check_given(beat_schedule: Mapping[str, Any]) -> None:
    """Refuse entries that Celery itself would answer with a bare TypeError."""
    for name, given in beat_schedule.items():
        where = f"beat_schedule[{name!r}]"
        if not isinstance(name, str) or not name or "\0" in name:
            message = f"{where}: the name must be a non-empty string without NUL"
            raise Misconfigured(message)
        if isinstance(given, ScheduleEntry):
            continue
        for key in given:
            if key not in KEYS:
                message = f"{where} has no key {key!r}; allowed are {', '.join(KEYS)}"
                raise Misconfigured(message)
        for key in ("task", "schedule"):
            if not given.get(key) and given.get(key) != 0:
                message = f"{where} has no {key!r}"
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
    given = declared.schedule
    if not isinstance(given, BaseSchedule) and not hasattr(given, "is_due"):
        message = (
            f"{where}: schedule is {given!r}; allowed are seconds, a timedelta, crontab,"
            " solar or another celery schedule"
        )
        raise Misconfigured(message)
    period = period_us(given)
    if period is not None and period < SHORTEST * SECOND:
        message = (
            f"{where}: schedule is every {period / SECOND:g} s; allowed are"
            f" {SHORTEST} s and longer"
        )
        raise Misconfigured(message)
    policy = _policy(where, getattr(declared, "pecker", None), given, period)
    if policy.grace_us is None and isinstance(given, crontab):
        starting = conf.get("beat_cron_starting_deadline")
        if starting is not None:
            policy = _with_grace(policy, int(starting * SECOND))
    return Entry(
        name=name,
        task=declared.task,
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


def _policy(
    where: str, given: object, schedule: BaseSchedule, period: int | None
) -> Policy:
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
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= 1000:  # noqa: E501, PLR2004  # the bound is in the message
            message = f"{where}['catch_up'] is {depth!r}; allowed are 1 to 1000 slots"
            raise Misconfigured(message)
    return Policy(
        delivery=_choice(
            where, "delivery", given, Delivery, _default_delivery(schedule, period)
        ),
        misfire=misfire,
        timeout_us=timeout_us,
        grace_us=default_grace_us(misfire, period) if grace_us is None else grace_us,
        depth=depth or 1,
    )


def _default_delivery(schedule: BaseSchedule, period: int | None) -> Delivery:
    seldom = (
        period >= MINUTE_US
        if period is not None
        else isinstance(schedule, (crontab, solar))
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
    if value not in [*kind]:
        allowed = ", ".join(repr(one.value) for one in kind)
        message = f"{where}[{key!r}] is {value!r}; allowed are {allowed}"
        raise Misconfigured(message)
    return kind(value)


def _seconds(where: str, key: str, given: Mapping[str, object]) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if hasattr(value, "total_seconds"):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value:
        message = f"{where}[{key!r}] is {value!r}; allowed are seconds above zero"
        raise Misconfigured(message)
    return int(value * SECOND)


def watch_for_twins() -> None:
    """Remember when ``add_periodic_task`` replaces an entry by a different one.

    Celery lets the second silently win. Called once by the command line, before the
    app is loaded; it only looks on.
    """
    original = Celery._add_periodic_task  # noqa: SLF001  # Celery has no event for it
    if getattr(original, "watches", False):
        return

    def watching(
        self: Celery, key: str, entry: Mapping[str, Any], name: str | None = None
    ) -> None:
        before = self._conf.beat_schedule.get(key)
        if before is not None and not _alike(before, entry):
            self.__dict__.setdefault(_TWINS, []).append(key)
        original(self, key, entry, name=name)

    watching.watches = True  # type: ignore[attr-defined]
    Celery._add_periodic_task = watching  # type: ignore[method-assign]  # noqa: SLF001


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
    def told(entry: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(
            repr(entry.get(key) or None) for key in ("task", "schedule", "args", "kwargs")
        )

    return told(one) == told(other)
