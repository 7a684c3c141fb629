"""``sharding list``: the jobs there are."""

from celery_pecker.kernel.clock import to_us
from celery_pecker.surfaces.console.context import number
from celery_pecker.surfaces.console.rendering import filters, print_table
from celery_pecker.surfaces.views.model import Query
from celery_sharding.cli.context import Context, plain
from celery_sharding.ledger.rows import JobRow
from celery_sharding.overview import verdict
from celery_sharding.views import JOBS_TABLE, chosen


@Context.command("list")
@filters(JOBS_TABLE)
@number("--limit", 1, 1_000, "Jobs shown at most, the youngest first.", 50)
def list_(context: Context, /, *, query: Query, limit: int) -> None:
    """List jobs, the youngest first: their state and their progress."""
    reading = context.ledger.reading
    rows = reading.jobs(**chosen(query, to_us(reading.totals().now)), most=limit)
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
