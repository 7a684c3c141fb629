"""What all schedules of a calendar have in common, for Celery and for us.

Celery asks ``is_due`` and ``remaining_estimate``; our scheduler asks ``instant_after``,
whose answer depends on its argument alone, so that each replica names the same slots.
"""

from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Self

from celery.schedules import BaseSchedule, schedstate

from celery_pecker.calendars.checks import instant_of, refuse, zone_of
from celery_pecker.calendars.zones import LocalRule, first_after

MICROSECOND = timedelta(microseconds=1)
IDLE = 3600.0
"""Seconds until Celery's beat asks a schedule again that has no instant left."""
TRIED_FROM = datetime(2000, 1, 1, tzinfo=UTC)
"""From here on a rule is looked at for an instant, if it has no start."""


class CalendarSchedule(BaseSchedule):
    """Instants by a calendar: after one of them comes the next, or none."""

    shortest = 86_400.0
    """Seconds between two instants, at least (where clocks do not change)."""

    def __init__(
        self,
        name: str,
        args: tuple[object, ...],
        options: Mapping[str, Any],
    ) -> None:
        """Take what it was made of; the base reads zone, start and end of it."""
        super().__init__()
        texts = [repr(one) for one in args]
        texts += [f"{key}={_plain(value)!r}" for key, value in options.items() if value]
        self._text = f"{name}({', '.join(texts)})"
        self._made = (args, {key: value for key, value in options.items() if value})
        self.own_zone = zone_of(self._text, options.get("zone"))
        """Its own time zone; None: the app's."""
        self.start = instant_of(self._text, "start", options.get("start"))
        """Nothing comes before it."""
        self.end = instant_of(self._text, "end", options.get("end"))
        """Nothing comes after it."""
        self._ready: tuple[tzinfo, LocalRule] | None = None
        """The rule in the zone that was asked for last."""

    @property
    def frequent(self) -> bool:
        """Whether it may come more than once a minute."""
        return self.shortest < 60  # noqa: PLR2004  # a minute

    @property
    def zone(self) -> tzinfo:
        """The time zone by whose clocks it goes: its own, or the app's."""
        of_app: Any = self.tz
        return self.own_zone or of_app

    @property
    def words(self) -> str:
        """The schedule in words."""
        return self._text

    def bound(self, app: Any, name: str) -> Self:
        """Return a copy for one entry of an app."""
        mine: Self = copy_of(self)
        mine.app = app
        return mine

    def instant_after(self, instant: datetime) -> datetime | None:
        """Return the first instant after another (aware, UTC); None: there is none."""
        utc = instant.astimezone(UTC).replace(tzinfo=None)
        later = self.utc_after(utc, self.zone)
        return None if later is None else later.replace(tzinfo=UTC)

    def utc_after(self, utc: datetime, zone: tzinfo) -> datetime | None:
        """Return the same, both naive UTC, by the clocks of a zone."""
        if self.start is not None:
            utc = max(utc, utc_of(self.start, zone) - MICROSECOND)
        instant = self._after(utc, zone)
        if instant is None:
            return None
        if self.end is not None and instant > utc_of(self.end, zone):
            return None
        return instant

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return how long it is from now to the first instant after the last run."""
        next_at = self.instant_after(self.maybe_make_aware(last_run_at))
        if next_at is None:
            return timedelta.max
        return next_at - self._utc_now()

    def is_due(self, last_run_at: datetime) -> Any:
        """Return whether an instant has passed since, and seconds to the next one."""
        now = self._utc_now()
        next_at = self.instant_after(self.maybe_make_aware(last_run_at))
        due = next_at is not None and next_at <= now
        if due:
            next_at = self.instant_after(now)
        wait = IDLE if next_at is None else (next_at - now).total_seconds()
        return schedstate(due, wait)

    def _after(self, utc: datetime, zone: tzinfo) -> datetime | None:
        """Return the first instant after another, both naive UTC."""
        if self._ready is None or self._ready[0] is not zone:
            self._ready = zone, self._rule_in(zone)
        return first_after(self._ready[1], zone, utc)

    def _rule_in(self, zone: tzinfo) -> LocalRule:
        raise NotImplementedError

    def _utc_now(self) -> datetime:
        return self.maybe_make_aware(self.now()).astimezone(UTC)

    def _check(self) -> None:
        """Refuse what never comes; as if in UTC, where the zone is the app's."""
        zone = self.own_zone or UTC
        start, end = self.start, self.end
        if start and end and utc_of(end, zone) < utc_of(start, zone):
            refuse(self._text, "end", str(end), "an instant after the start")
        trial = copy_of(self)
        trial.own_zone = zone
        if trial.start is None:
            trial.end = None
        if trial.instant_after(TRIED_FROM - MICROSECOND) is None:
            refuse(self._text, "the schedule", self._text, "one that comes at all")

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, CalendarSchedule):
            return False
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), *self._made)


def copy_of(one: Any) -> Any:
    """Return a copy without an app; ``copy`` itself would make it anew."""
    mine = object.__new__(type(one))
    mine.__dict__.update(copy(one.__dict__))
    mine.__dict__.pop("tz", None)  # Celery keeps the zone of an app there
    return mine


def _make(
    kind: type[Any], args: tuple[object, ...], options: Mapping[str, object]
) -> Any:
    return kind(*args, **options)


def utc_of(instant: datetime, zone: tzinfo) -> datetime:
    """Return an instant, if naive a local time of the zone, as naive UTC."""
    local = instant.replace(tzinfo=zone) if instant.tzinfo is None else instant
    return local.astimezone(UTC).replace(tzinfo=None)


def _plain(value: object) -> object:
    """Return what stands in the text of a schedule, the same in each process."""
    if isinstance(value, (datetime, tzinfo)):
        return str(value)
    if hasattr(value, "is_working_day"):
        return type(value)
    return value
