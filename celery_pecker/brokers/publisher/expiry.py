"""When a message expires: the slot's own instant, or the entry's option as in beat."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from celery.beat import ScheduleEntry

from celery_pecker.brokers.publisher.lanes import NoTemplate


@dataclass(frozen=True, slots=True)
class Stamp:
    """What Celery writes into a message that expires."""

    header: str
    """`headers['expires']`: what a worker compares with its clock."""
    milliseconds: str
    """The property `expiration`: what RabbitMQ counts down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The `expires` that an entry has by itself, by its options or by its task's."""

    seconds: float | None = None
    until: datetime | None = None
    text: str | None = None
    """`until` as the user wrote it."""
    timezone: tzinfo

    @classmethod
    def of(cls, app: Any, entry: ScheduleEntry) -> Expiry:
        """Return what Celery would take `expires` from, in Celery's order."""
        options = dict(entry.options or {})
        task = app.tasks.get(entry.task)
        if task is not None:
            options = {**task._get_exec_options(), **options}  # noqa: SLF001 (as apply_async does)
        own = options.get("expires")
        if own is None:
            return cls(timezone=app.timezone)
        if isinstance(own, numbers.Real):
            return cls(seconds=float(own), timezone=app.timezone)
        if isinstance(own, datetime):
            return cls(until=own, text=own.isoformat(), timezone=app.timezone)
        msg = f"option 'expires' is {own!r}"
        if not isinstance(own, str):
            raise NoTemplate(msg)
        try:
            until = datetime.fromisoformat(own)
        except ValueError:
            raise NoTemplate(msg) from None
        return cls(until=until, text=own, timezone=app.timezone)

    def stamp(self, now: datetime, expires: datetime | None) -> Stamp | None:
        """Return what to write for a slot that expires then, or by this option."""
        until, text = self.until, self.text
        if expires is not None:
            until, text = expires, expires.isoformat()
        if until is not None and text is not None:
            # Celery takes an instant without a zone for UTC
            aware = until if until.tzinfo else until.replace(tzinfo=UTC)
            left = (aware - now).total_seconds()
            return Stamp(text, _milliseconds(left))
        if self.seconds is None:
            return None
        instant = (now + timedelta(seconds=self.seconds)).astimezone(self.timezone)
        return Stamp(instant.isoformat(), _milliseconds(self.seconds))


def _milliseconds(seconds: float) -> str:
    # Celery says 0 of an instant in the past, kombu cuts off, not rounds.
    return str(int(max(seconds, 0) * 1000))
