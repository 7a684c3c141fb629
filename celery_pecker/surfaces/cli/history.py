"""``pecker history``: figures of an entry, a task or a queue over time."""

import click

from celery_pecker.kernel.clock import MICROSECOND
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.console.rendering import print_figures, print_table
from celery_pecker.surfaces.views.history import (
    HISTORY,
    MARKS,
    OF,
    OUTBOX_POINTS,
    POINTS,
    document,
    length_of,
    past,
)


@Context.command()
@click.argument("name", default="")
@click.option("--since", default="1h", show_default=True, help="90m, 24h, 30d.")
@click.option(
    "--of",
    type=click.Choice(OF),
    default=OF[0],
    help="What NAME is; task and queue: of an outbox.",
)
def history(context: Context, *, name: str, since: str, of: str) -> None:
    """Show lateness, waits, run times and outcomes of an entry over time.

    Without NAME of all entries (or outbox tasks) together. Below it what happened
    meanwhile: deploys, alarms, edits, schedulers that came and went.
    """
    length_us = length_of(since) // MICROSECOND
    shown = past(context.database, of, name, length_us=length_us)
    if context.print_json(document(shown)):
        return
    print_figures(context, HISTORY, shown)
    table = POINTS if of == "entry" else OUTBOX_POINTS
    print_table(context, table, shown.points)
    print_table(context, MARKS, shown.marks)
