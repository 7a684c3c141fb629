"""``pecker outbox load``: how hard recorded tasks are run, changed while they run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from celery.bin.base import CeleryCommand

from celery_pecker.outbox import operations
from celery_pecker.outbox.runs.load import MAX_PAUSE, MAX_THREADS, Load
from celery_pecker.surfaces.cli.context import as_json
from celery_pecker.surfaces.cli.outbox import of_outbox, opened, outbox

__all__ = ["outbox"]

_pause = click.FloatRange(0.0, MAX_PAUSE)


@outbox.command(cls=CeleryCommand)
@click.option(
    "--threads", type=click.IntRange(0, MAX_THREADS), help="Of each worker; 0: none."
)
@click.option("--pause-empty", type=_pause, help="Seconds when nothing was due.")
@click.option("--pause-error", type=_pause, help="Seconds after a run that failed.")
@click.option("--pause-done", type=_pause, help="Seconds after one that succeeded.")
@click.option("--only", multiple=True, help="Run this task only (may be repeated).")
@click.option("--everything", is_flag=True, help="Run all tasks again.")
@click.option("--default", is_flag=True, help="First set all of it back.")
@of_outbox
@as_json
@click.pass_context
def load(
    ctx: click.Context, /, *, default: bool, name: str, json: bool, **options: Any
) -> None:
    """Show or change threads, pauses and urgent tasks of modes local and until_done."""
    everything, only = options.pop("everything"), options.pop("only")
    changes = {key: value for key, value in options.items() if value is not None}
    if only or everything:
        changes["only"] = None if everything else only
    with opened(ctx, name, json=json) as (context, database):
        current = operations.read_load(database)
        if changes or default:
            known = asdict(Load() if default else current)
            current = operations.set_load(database, **{**known, **changes})
        if not context.print_json(asdict(current)):
            for key, value in asdict(current).items():
                shown = "all" if value is None else value
                click.echo(f"{key.replace('_', ' ')}: {shown}")
