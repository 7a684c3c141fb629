"""``sharding list``: the jobs there are."""

import click

from celery_pecker.surfaces.console.context import number
from celery_pecker.surfaces.console.rendering import print_table
from celery_sharding.cli.context import Context, plain
from celery_sharding.ledger.rows import JobRow
from celery_sharding.overview import verdict
from celery_sharding.views import JOBS_TABLE


@Context.command("list")
@click.option("--open", "open_only", is_flag=True, help="Those that have not ended.")
@click.option("--search", default="", help="Names, keys and ids that contain this.")
@number("--limit", 1, 1_000, "Jobs shown at most, the youngest first.", 50)
def list_(context: Context, *, open_only: bool, search: str, limit: int) -> None:
    """List jobs, the youngest first: their state and their progress."""
    rows = context.ledger.reading.jobs(open_only=open_only, search=search, most=limit)
    if context.print_json({"jobs": [document(row) for row in rows]}):
        return
    if not rows:
        context.console.print(JOBS_TABLE.empty)
    print_table(context, JOBS_TABLE, rows)


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
