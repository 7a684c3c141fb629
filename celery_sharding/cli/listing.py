"""``sharding list``: the jobs there are."""

from __future__ import annotations

import click
from celery.bin.base import CeleryCommand
from rich.text import Text

from celery_pecker.surfaces.console.listing import Listing
from celery_sharding.cli.context import Context, as_json, plain
from celery_sharding.cli.formatting import STYLES, percent, visible
from celery_sharding.ledger.rows import JobRow
from celery_sharding.overview import verdict


@click.command(name="list", cls=CeleryCommand)
@click.option("--open", "open_only", is_flag=True, help="Those that have not ended.")
@click.option("--search", default="", help="Names, keys and ids that contain this.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=50,
    show_default=True,
    help="Jobs shown at most, the youngest first.",
)
@as_json
@click.pass_context
def list_(
    ctx: click.Context, *, open_only: bool, search: str, limit: int, json: bool
) -> None:
    """List jobs, the youngest first: their state and their progress."""
    with Context.open(ctx, json=json) as context:
        rows = context.ledger.reading.jobs(
            open_only=open_only, search=search, most=limit
        )
        if context.print_json({"jobs": [document(row) for row in rows]}):
            return
        table = table_of("id", "task", "state", "done", "items", "failed", "submitted")
        for row in rows:
            state = verdict(row).state
            table.add_row(
                Text(visible(row.task_id)),
                Text(visible(row.task)),
                Text(state.value, style=STYLES[state]),
                percent(row.progress().fraction),
                f"{row.total:,}",
                f"{row.failed:,}",
                context.when(row.submitted_at),
            )
        context.console.print(table if rows else "there are no such jobs")


def document(row: JobRow) -> dict[str, object]:
    """Return a job as JSON has it."""
    progress = row.progress()
    fields: dict[str, object] = plain(row)
    for name in ("now", "leading", "job"):
        del fields[name]
    return {
        **fields,
        "state": verdict(row).state.value,
        "why": verdict(row).why,
        "percent": progress.percent,
        "rate": round(progress.rate, 3),
        "eta": plain(progress.eta),
        "elapsed": round(progress.elapsed, 3),
    }


def table_of(first: str, *others: str) -> Listing:
    """Return a table whose figures stand on the right."""
    figures = {"done", "items", "failed", "shards", "open", "deaths"}
    return Listing(first, *others, right=figures)
