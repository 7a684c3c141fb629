"""``sharding show``: one job."""

from collections.abc import Iterator

from rich.text import Text

from celery_pecker.surfaces.console.listing import Listing
from celery_pecker.surfaces.console.rendering import STYLES, print_table, visible
from celery_pecker.surfaces.views.phrases import NONE, duration, pace
from celery_sharding.cli.context import Context, of_job
from celery_sharding.cli.listing import document
from celery_sharding.overview import MEANINGS, Snapshot, in_words, take_snapshot
from celery_sharding.views import (
    GROUPS_TABLE,
    LAYERS_TABLE,
    STATES,
    STRAGGLERS_TABLE,
    state_of,
)


@Context.command()
@of_job
def show(context: Context, *, task_id: str) -> None:
    """Show one job: layers, shards by status, what takes long, errors that are one."""
    seen = take_snapshot(context.ledger, task_id)
    if not context.print_json(_document(seen)):
        _print(context, seen)


def _document(seen: Snapshot) -> dict[str, object]:
    return {
        **document(seen.row),
        "by_layer": seen.layers,
        "shards": {int(code): many for code, many in seen.grid.counts.items()},
        "stragglers": seen.stragglers,
        "errors": [row.error for row in seen.errors],
        "more_errors": seen.more_errors,
        "error_groups": seen.groups,
    }


def _print(context: Context, seen: Snapshot) -> None:
    stands = seen.verdict
    state = state_of(seen.row)
    line = Text(state, style=STYLES[STATES[state]])
    context.console.print(line.append(f"  {visible(stands.why)}", ""))
    for name, text in _facts(context, seen):
        if text != NONE:
            context.console.print(Text(f"  {name:<12}{text}"))
    print_table(context, LAYERS_TABLE, seen.layers)
    listing = Listing("shards are", "shards", "what it means", right={"shards"})
    each = "" if seen.grid.per == 1 else f" groups of {seen.grid.per}"
    for code, many in sorted(seen.grid.counts.items()):
        listing.add_row(in_words(code), f"{many:,}{each}", MEANINGS[code].why)
    if listing.row_count:
        context.console.print(listing)
    print_table(context, STRAGGLERS_TABLE, seen.stragglers)
    print_table(context, GROUPS_TABLE, seen.groups)
    if seen.note:
        context.console.print(seen.note)


def _facts(context: Context, seen: Snapshot) -> Iterator[tuple[str, str]]:
    row, progress = seen.row, seen.progress
    yield "task", visible(row.task)
    yield "key", visible(row.key) if row.key else NONE
    yield "follows", row.leader or NONE
    yield "items", f"{row.done:,} of {row.total:,} done, {row.failed:,} failed"
    yield "rate", f"{pace(progress.rate)}, left {duration(progress.eta)}"
    yield "run", str(row.run)
    yield "concurrency", f"{row.held} of at most {row.concurrency} shards run"
    yield "submitted", f"{context.when(row.submitted_at)}, {duration(row.elapsed)}"
    yield "deadline", context.when(row.deadline_at)
