"""``sharding errors``: the items that failed, all of them."""

from itertools import islice
from typing import Any

import click
from rich.text import Text

from celery_pecker.surfaces.console.rendering import print_table, visible
from celery_pecker.surfaces.views.phrases import plural
from celery_sharding.cli.context import Context, of_job
from celery_sharding.model import ItemError
from celery_sharding.overview import error_groups, in_words
from celery_sharding.views import GROUPS_TABLE, as_text

MOST_GROUPED = 100_000
"""Failed items whose errors are grouped, if no limit is given."""


@Context.command()
@of_job
@click.option("--limit", type=click.IntRange(1), help="So many at most; else all.")
@click.option("--traceback", is_flag=True, help="With what was seen where it failed.")
@click.option("--grouped", is_flag=True, help="A row for each error, with its items.")
def errors(
    context: Context,
    *,
    task_id: str,
    limit: int | None,
    traceback: bool,
    grouped: bool,
) -> None:
    """List the items that failed, and why: with --json a line for each.

    They are read in pages and printed as they are read, so any number of them may be
    piped into a file. Grouped, errors are one that differ in numbers, ids and quoted
    values only: `sharding retry ID --error KEY` runs the items of one again.
    """
    if grouped:
        _print_groups(context, task_id, limit or MOST_GROUPED, traceback=traceback)
        return
    failed = context.ledger.reading.each_error(task_id)
    count = 0
    for error in islice(failed, limit):
        count += 1
        if context.json:
            context.print_line(error)
        else:
            _print(context, error, traceback=traceback)
    if not context.json:
        click.echo(f"{count:,} failed" if count else "no item failed", err=True)


def _print_groups(
    context: Context, task_id: str, most: int, *, traceback: bool
) -> None:
    row = context.ledger.reading.job(task_id)
    groups, note = error_groups(context.ledger, row, most=most)
    if context.print_json({"groups": groups, "note": note}):
        return
    print_table(context, GROUPS_TABLE, groups)
    for group in groups if traceback else ():
        context.console.print(Text(f"{group.key}  {visible(group.error)}", "red"))
        _print_traceback(context, group.traceback)
    read = sum(group.count for group in groups)
    words = f"{read:,} failed, {plural(len(groups), 'error')}"
    click.echo(f"{words}. {note}" if read else "no item failed", err=True)


def _print(context: Context, error: ItemError, *, traceback: bool) -> None:
    where = f"shard {error.shard}"
    where += f", item {error.place}" if error.place >= 0 else ", as a whole"
    attempt = f", attempt {error.attempt}" if error.attempt > 1 else ""
    line = Text(f"{in_words(error.code)}  {where}{attempt}  ", style="dim")
    if error.place >= 0:
        line.append(item(error.item), "")
    line.append(f"  {visible(error.type)}: {short(error.message)}", "red")
    context.console.print(line)
    if traceback and error.traceback:
        _print_traceback(context, error.traceback)


def _print_traceback(context: Context, text: str) -> None:
    for one in text.rstrip().splitlines():
        context.console.print(Text(f"    {visible(one)}", style="dim"))


def item(value: Any, longest: int = 80) -> str:
    """Return an item as JSON, on one line, cut where it is long."""
    return visible(as_text(value, longest))


def short(text: str, longest: int = 120) -> str:
    """Return the first line of a text, cut where it is long."""
    line = visible(text.strip().partition("\n")[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
