"""``pecker history``: figures of an entry, task, queue, limit or job over time."""

import click

from celery_pecker.kernel.clock import MICROSECOND
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.console.rendering import print_figures, print_table
from celery_pecker.surfaces.views.history import (
    HISTORY,
    JOB_POINTS,
    LIMIT_POINTS,
    MARKS,
    OF,
    OUTBOX_POINTS,
    POINTS,
    document,
    past,
)
from celery_pecker.surfaces.views.model import length_of


@Context.command()
@click.argument("name", default="")
@click.option("--since", default="1h", show_default=True, help="90m, 24h, 30d.")
@click.option(
    "--of",
    type=click.Choice([*OF]),
    default="entry",
    help="What NAME is; task, queue: of an outbox; limit: of throttle_limits;"
    " job: the task of sharded jobs.",
)
def history(context: Context, *, name: str, since: str, of: str) -> None:
    """Show lateness, waits, run times and outcomes of an entry over time.

    Without NAME of all entries (outbox tasks, limits, jobs) together. Below it what
    happened meanwhile: deploys, alarms, edits, schedulers that came and went.
    """
    length_us = length_of(since) // MICROSECOND
    shown = past(context.database, of, name, length_us=length_us)
    if context.print_json(document(shown)):
        return
    print_figures(context, HISTORY, shown)
    tables = {"entry": POINTS, "limit": LIMIT_POINTS, "job": JOB_POINTS}
    print_table(context, tables.get(of, OUTBOX_POINTS), shown.points)
    print_table(context, MARKS, shown.marks)
