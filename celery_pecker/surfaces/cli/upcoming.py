"""``pecker next``: when an entry is due."""

from collections.abc import Iterator

import click

from celery_pecker.kernel.errors import UnknownSchedule
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.overview import EntryRow
from celery_pecker.surfaces.cli.context import NO, Context, instant, number
from celery_pecker.surfaces.cli.stored_schedules import stored_entry

MOST = 10_000


def first_after(entry: Entry | None, row: EntryRow, now_us: int) -> int | None:
    """Return the slot after the last one; None where it is not known.

    What this code declares counts; the tables say the period of grids that other code
    declares.
    """
    return row.next_us if entry is None else entry.after(row.last_us, now_us)


def slots(entry: Entry | None, row: EntryRow, now_us: int) -> Iterator[int]:
    """Yield the slots after the last one, without end where there is none."""
    due_us = first_after(entry, row, now_us)
    period_us = row.period_us if entry is None else entry.period_us
    if due_us is not None and period_us is not None and due_us < now_us:
        # Of what has passed, the last one only: the rest is its misfire policy's.
        due_us += (now_us - due_us) // period_us * period_us
    while due_us is not None:
        yield due_us
        if period_us is not None:
            due_us += period_us
        else:
            after_us = None if entry is None else entry.after(due_us, now_us)
            due_us = after_us if after_us and after_us > due_us else None


@Context.command("next")
@click.argument("name")
@number("--count", 1, MOST, "How many slots.", 5, "-n")
def next_(context: Context, *, name: str, count: int) -> None:
    """Show when an entry is due next, by the database's clock."""
    entry = context.declared.get(name) or stored_entry(context, name)
    detail = context.overview.entry(name, limit=0)
    if detail is None:
        if entry is None:
            raise UnknownSchedule(name)
        message = f"{UnknownSchedule(name)}; this code declares it, but no scheduler"
        raise UnknownSchedule(name, f"{message} has seen it yet")
    row, now_us = detail.row, detail.now_us
    words = entry.words if entry else ""
    runs = [
        due for _, due in zip(range(count), slots(entry, row, now_us), strict=False)
    ]
    if not context.print_json(
        {
            "name": name,
            "now_us": now_us,
            "last_us": row.last_us,
            "words": words,
            "slots": [instant(due) for due in runs],
        }
    ):
        if words:
            click.echo(words)
        for due_us in runs:
            mark = "  overdue" if due_us <= now_us else ""
            click.echo(f"{context.at(due_us)}{mark}")
    if not runs:
        click.echo(
            f"{name!r} has a schedule that can only be asked whether it is due now,"
            " one that has come to its end, or one that only other code knows",
            err=True,
        )
        context.leave(NO)
