"""``pecker import`` and ``export``: from another scheduler, and back."""

from __future__ import annotations

import json as jsons
from collections import Counter
from pathlib import Path
from typing import TextIO

import click
from celery.bin.base import CeleryCommand

from celery_pecker.kernel.clock import from_us
from celery_pecker.schedules.engine.repository import CHUNK
from celery_pecker.schedules.overview.details import alive, count_of_schedulers
from celery_pecker.surfaces.cli.context import NO, Context, as_json, instant
from celery_pecker.surfaces.cli.health import rows_of
from celery_pecker.surfaces.cli.imported_state import ImportedRun, plan, read
from celery_pecker.surfaces.cli.schedules_import import PEERS, Place, import_schedules
from celery_pecker.surfaces.cli.stored_schedules import stored_names

WORDS = {
    "set": "ran last at",
    "kept": "has run here already, kept; not",
    "undeclared": "is neither of this code nor stored, left out; ran last at",
    "ahead": "is left out: that instant has not come:",
}


@click.command(name="import", cls=CeleryCommand)
@click.argument("source", metavar="FILE | URL", required=False)
@click.option(
    "--schedules",
    "peer",
    type=click.Choice(PEERS),
    help="Store the schedules of that scheduler, which are at URL.",
)
@click.option(
    "--zone",
    default="UTC",
    show_default=True,
    help="With --schedules: of instants stored without one (Django without USE_TZ).",
)
@click.option("--prefix", help="With --schedules redbeat: redbeat_key_prefix.")
@click.option("--schema", help="With --schedules: where the tables are.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Also entries that ran here already: their slots since then may come twice.",
)
@as_json
@Context.opened
def import_(  # noqa: PLR0913  # from five sources
    context: Context,
    *,
    source: str | None,
    peer: str | None,
    zone: str,
    prefix: str | None,
    schema: str | None,
    dry_run: bool,
    overwrite: bool,
) -> None:
    """Take over when entries ran last, or what another scheduler stores.

    FILE is beat's own or JSON, an object of instants by name:
    {"sweep": "2026-01-01T12:00:00+00:00"}. Beat's file is a pickle: read none that
    another user could have written.

    With --schedules, URL is the Redis of RedBeat or the database of the other two;
    without one it is what the app's settings say.
    """
    if peer is not None:
        if overwrite:
            message = "--overwrite goes with a FILE only"
            raise click.UsageError(message)
        place = Place(url=source, zone=zone, prefix=prefix, schema=schema)
        import_schedules(context, peer, place, dry_run=dry_run)
        return
    if source is None:
        message = "Missing argument 'FILE'."
        raise click.UsageError(message)
    file = Path(source)
    declared = {*context.declared, *stored_names(context)}
    state = read(file)
    now_us, rows = rows_of(context, [*state])
    steps = plan(state, rows, declared=declared, now_us=now_us, overwrite=overwrite)
    if not dry_run:
        _write(context, [one for one in steps if one.verdict == "set"], overwrite)
    counted = Counter(one.verdict for one in steps)
    if not context.print_json({"dry_run": dry_run, "entries": steps, **counted}):
        for one in steps:
            click.echo(f"{one.name} {WORDS[one.verdict]} {context.at(one.last_us)}")
        did = "would be set" if dry_run else "set"
        click.echo(f"{counted['set']} of {len(steps)} entries {did}")
    replicas = context.overview.replicas()
    if alive(replicas) and not dry_run:
        click.echo(
            f"note: {count_of_schedulers(replicas)}; what was sent already is not"
            " taken back",
            err=True,
        )
    if not counted["set"] and not counted["kept"]:
        context.leave(NO)


def _write(context: Context, carried: list[ImportedRun], overwrite: bool) -> None:
    for start in range(0, len(carried), CHUNK):
        chunk = carried[start : start + CHUNK]
        context.database.run(
            "import_last",
            now=None,
            names=[one.name for one in chunk],
            instants=[from_us(one.last_us) for one in chunk],
            overwrite=overwrite,
        )


@click.command(cls=CeleryCommand)
@click.option(
    "--output",
    type=click.File("w", encoding="utf-8", atomic=True),
    default="-",
    help="A file; without it standard output, where an app may print, too.",
)
@click.option("--json", is_flag=True, help="It is JSON in any case.")
@Context.opened
def export(context: Context, *, output: TextIO) -> None:
    """Write when entries of this code and stored ones ran last, as import reads it.

    For going back to another scheduler, or to another database.
    """
    names = {*context.declared, *stored_names(context)}
    _, rows = rows_of(context, sorted(names))
    state = {name: instant(row.executed_us) for name, row in sorted(rows.items())}
    click.echo(jsons.dumps(state, indent=2, ensure_ascii=False), file=output)
