"""``pecker audit``: who did what."""

import click

from celery_pecker.kernel.audit import acts
from celery_pecker.surfaces.cli.context import Context, limited
from celery_pecker.surfaces.console.rendering import print_table
from celery_pecker.surfaces.views.audit import ACTS


@Context.command()
@click.argument("search", default="")
@click.option("--by", "done_by", help="Only what this person did.")
@click.option("--act", help='Only this, as "outbox drop".')
@limited
def audit(context: Context, *, limit: int, **which: str | None) -> None:
    """Show who did what by a command, Flower, the admin or remote control.

    The newest first; with SEARCH what was done to names that have it in them.
    """
    rows = acts(context.database, **which, most=limit)
    if not context.print_json({"acts": rows}):
        print_table(context, ACTS, rows)
