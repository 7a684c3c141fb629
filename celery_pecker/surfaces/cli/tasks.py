"""``pecker tasks``: every entry, once or live."""

import json as jsons
from functools import partial
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.schedules.overview import ORDERS, EntryPage, EntryRow
from celery_pecker.surfaces.cli.context import Context, limited, number, plain
from celery_pecker.surfaces.cli.upcoming import first_after
from celery_pecker.surfaces.console.context import turns
from celery_pecker.surfaces.console.exits import YES, interrupted
from celery_pecker.surfaces.console.listing import Listing
from celery_pecker.surfaces.console.rendering import filters, listing
from celery_pecker.surfaces.views.model import Query
from celery_pecker.surfaces.views.phrases import span
from celery_pecker.surfaces.views.schedules import ENTRIES

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 12
"""Slots in a sparkline here."""


@Context.command()
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@number("--every", 0.1, 3_600.0, "With --watch: seconds between two looks.", 1.0)
@click.option(
    "--times", type=click.IntRange(1), help="With --watch: end after so many looks."
)
@filters(ENTRIES)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="state",
    show_default=True,
    help="What to sort by; state: trouble first.",
)
@click.option("--desc", "descending", is_flag=True, help="The other way round.")
@limited
@click.option("--offset", type=click.IntRange(0), default=0, help="Entries left out.")
def tasks(
    context: Context,
    /,
    *,
    watch: bool,
    every: float,
    times: int | None,
    query: Query,
    **asked: Any,
) -> None:
    """List the entries: last and next slot, lateness, holder, what they missed."""
    look = partial(context.overview.page, **ENTRIES.asked(query), **asked)
    if not watch:
        page = look()
        if not context.print_json(_document(context, page)):
            context.console.print(_table(context, page))
        return
    if context.json:
        with interrupted(YES):
            for _ in turns(every, times):
                click.echo(jsons.dumps(plain(_document(context, look()))))
        return
    with (
        interrupted(YES),
        Live(console=context.console, auto_refresh=False, transient=False) as live,
    ):
        for _ in turns(every, times):
            try:
                shown: RenderableType = _table(context, look())
            except DatabaseUnavailable as error:
                shown = Group(live.renderable, Text(str(error), style="red"))
            live.update(shown, refresh=True)


def _document(context: Context, page: EntryPage) -> dict[str, object]:
    return {
        "now_us": page.now_us,
        "total": page.total,
        "entries": [
            {**plain(row), **plain({"next_us": _next(context, row, page.now_us)})}
            for row in page.rows
        ],
    }


def _next(context: Context, row: EntryRow, now_us: int) -> int | None:
    return first_after(context.declared.get(row.name), row, now_us)


def _table(context: Context, page: EntryPage) -> Listing:
    now_us = page.now_us
    shown = f"{len(page.rows)} of {page.total} entries, {context.at(now_us)}"
    return listing(
        context,
        ENTRIES,
        page.rows,
        title=shown,
        without=("task", "schedule"),
        by_hand={
            "last_us": lambda row: _last(context, row, now_us),
            "next_us": lambda row: _due(_next(context, row, now_us), now_us),
            "host": lambda row: row.host or "-",
            "late_us": lambda row: f"{span(row.late_us)} {bars(row.spark[-SHOWN:])}",
        },
    )


def _last(context: Context, row: EntryRow, now_us: int) -> str:
    local = from_us(row.last_us).astimezone(context.zone)
    same_day = from_us(now_us).astimezone(context.zone).date() == local.date()
    at = f"{local:%H:%M:%S}" if same_day else f"{local:%Y-%m-%d %H:%M}"
    # Not won here yet: imported, or when it was first seen
    return at if row.epoch else f"from {at}"


def _due(next_us: int | None, now_us: int) -> str:
    if next_us is None:
        return "-"
    if next_us < now_us:
        return f"{span(now_us - next_us)} ago"
    return f"in {span(next_us - now_us)}"


def bars(values: list[int]) -> str:
    """Return a sparkline: the highest bar is the largest value, or 100 ms."""
    top = max([*values, 100_000])
    return "".join(BARS[min(max(one, 0) * len(BARS) // (top + 1), 7)] for one in values)
