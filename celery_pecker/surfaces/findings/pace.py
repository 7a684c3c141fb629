"""What is late, by the code and by the outboxes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from celery_pecker.outbox.overview import OutboxSummary
from celery_pecker.schedules.engine.model import Entry, Row
from celery_pecker.surfaces.views.phrases import duration, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """An entry whose due slot no replica has claimed."""

    name: str
    overdue_us: int | None
    """None where no scheduler has ever seen it."""

    @property
    def words(self) -> str:
        """Return it for people."""
        if self.overdue_us is None:
            return f"{self.name!r} was never seen by a scheduler"
        return f"{self.name!r} for {span(self.overdue_us)}"


def overdue(
    entries: Mapping[str, Entry], rows: Mapping[str, Row], now_us: int, within_us: int
) -> list[Overdue]:
    """Return the entries whose due slot no replica has claimed, the worst first. Pure.

    By this code, not by the tables: when all schedulers are gone, the tables hold
    no declaration any more, and a crontab's instants are known to code only.
    """
    late = []
    for name, entry in entries.items():
        row = rows.get(name)
        if row is None:
            late.append(Overdue(name=name, overdue_us=None))
            continue
        due_us = entry.after(row.executed_us, now_us)
        if due_us is not None and now_us - due_us > within_us:
            late.append(Overdue(name=name, overdue_us=now_us - due_us))
    late.sort(key=lambda one: (one.overdue_us is not None, -(one.overdue_us or 0)))
    return late


def undelivered(summary: OutboxSummary, within: float) -> str | None:
    """Return why what is due is not delivered in time; None: it is. Pure."""
    if summary.oldest is None or summary.oldest <= within:
        return None
    text = f", the oldest for {duration(summary.oldest)}"
    if not summary.relays:
        return f"{text}; no relay runs"
    away = [one.broker for one in summary.relays if one.broker is not None]
    if len(away) == len(summary.relays):
        return f"{text}; the broker is away: {away[0]}"
    return text
