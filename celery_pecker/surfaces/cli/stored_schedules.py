"""What the commands about stored schedules have in common."""

from collections.abc import Iterator
from dataclasses import replace

from celery_pecker.schedules import ScheduleRow, Schedules
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.surfaces.cli.context import Context

PAGE = 1_000


def stored_rows(schedules: Schedules) -> Iterator[ScheduleRow]:
    """Yield all stored schedules, by name."""
    after = None
    while True:
        page = schedules.list(after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].name


def stored_names(context: Context) -> list[str]:
    """Return the names of all stored schedules."""
    return [row.name for row in stored_rows(context.schedules)]


def stored_entry(context: Context, name: str) -> Entry | None:
    """Return a stored schedule as its schedulers read it; None if there is none.

    Raises:
        Misconfigured: its row cannot be read.

    """
    row = context.schedules.get(name)
    if row is None:
        return None
    once_at = row.once_at if row.once else None
    entry = context.schedules.timings.entry(row, once_at)
    return replace(entry, words=row.words)
