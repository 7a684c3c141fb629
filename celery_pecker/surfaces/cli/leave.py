"""``pecker leave``: the way back to another scheduler."""

from datetime import UTC
from typing import Any

import click
import psycopg
from celery.beat import PersistentScheduler
from celery.bin.base import CeleryCommand
from psycopg.sql import SQL, Identifier

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.kernel.hosts import BoundedConnection
from celery_pecker.kernel.sql import tables
from celery_pecker.schedules.overview.slot_verdicts import alive, count_of_schedulers
from celery_pecker.surfaces.cli.context import NO, YES, Context, as_json
from celery_pecker.surfaces.cli.stored_schedules import stored_names

SETTINGS = ("pecker_", "sharding_", "throttle_")
UNINSTALL = (
    "pip uninstall celery-pecker; psycopg and psycopg-binary too if nothing else needs"
    " them: while psycopg 3 is installed, Django runs on it and not on psycopg2"
)


@click.command(cls=CeleryCommand)
@click.option(
    "--beat",
    "file",
    metavar="FILE",
    help="Write last runs into beat's file: celerybeat-schedule, or what -s says.",
)
@click.option("--drop", is_flag=True, help="Drop our tables; asks first.")
@click.option("--yes", is_flag=True, help="With --drop: do not ask.")
@as_json
@click.pass_context
def leave(
    ctx: click.Context, *, file: str | None, drop: bool, yes: bool, json: bool
) -> None:
    """Check that nothing is left to do here, and say what to take out.

    Nothing is written or dropped while a scheduler lives or an outbox holds a message;
    the exit code is 1 then. Schedules that are stored have no place in beat.
    """
    if json and (file or drop):
        raise click.UsageError("--json goes with neither --beat nor --drop")
    with Context.open(ctx, json=json) as context:
        left = _left(context)
        if context.print_json({"left": left}):
            context.leave(NO if left else YES)
        for line in left:
            context.print("[bold red]✗[/] ", line)
        if left:
            context.leave(NO)
        context.print("[green]✓[/] ", "no scheduler is alive, each outbox is empty")
        stored = stored_names(context)
        if stored:
            names = ", ".join(sorted(stored))
            context.print("[yellow]![/] ", f"stored, and not in the code: {names}")
        if file is not None:
            count = _write(context, file)
            context.print("[green]✓[/] ", f"{count} last runs are written to {file}")
        conf = context.app.conf
        named = sorted(key for key in conf if key.startswith(SETTINGS) and conf[key])
        keyed = sorted(
            k for k, entry in conf.beat_schedule.items() if "pecker" in entry
        )
        context.print("take out: ", f"settings {', '.join(named)}")
        if keyed:
            context.print("take out: ", f"the key 'pecker' of {', '.join(keyed)}")
        context.print("then: ", UNINSTALL)
        if drop:
            _drop(context, yes=yes)


def _left(context: Context) -> list[str]:
    """Return what is still to be done here, in words."""
    replicas = context.overview.replicas()
    left = [f"{count_of_schedulers(replicas)}: stop them"] if alive(replicas) else []
    for name, summary in context.project.summaries().items():
        if isinstance(summary, PeckerError):
            raise summary
        if count := summary.depth + summary.later + summary.parked:
            left.append(
                f"outbox {name}: {count} messages are not delivered, or parked:"
                " let a relay send them, or celery -A proj pecker outbox retry | drop"
            )
    return left


def _write(context: Context, file: str) -> int:
    """Write last runs into beat's own file, by beat's own code; return how many."""
    names = [*context.declared]
    _, rows = context.project.rows(names)
    conf: Any = context.app.conf
    keyed = conf.beat_schedule
    conf.beat_schedule = {
        name: {key: value for key, value in entry.items() if key != "pecker"}
        for name, entry in keyed.items()
    }
    beat = PersistentScheduler(context.app, schedule_filename=file)
    ran = 0
    for name, row in rows.items():
        if name in beat.schedule:
            last = from_us(row.executed_us).astimezone(UTC)
            beat.schedule[name].last_run_at = last.astimezone(context.zone)
            ran += 1
    beat.close()
    conf.beat_schedule = keyed
    return ran


def _drop(context: Context, *, yes: bool) -> None:
    """Drop our tables of the schema, and nothing else in it."""
    settings = context.settings
    named = tables()
    question = (
        f"Drop {len(named)} tables of schema {settings.schema!r} of"
        f" {context.database.where} with all that is in them?"
    )
    if not yes and not click.confirm(question):
        context.leave(NO)
    listed = SQL(", ").join(Identifier(settings.schema, name) for name in named)
    try:
        with BoundedConnection.within(settings.dsn, settings.database_timeout) as line:
            line.execute(SQL("drop table if exists {}").format(listed))
    except psycopg.Error as error:
        raise Misconfigured(f"the tables are not dropped: {error}") from error
    context.print("[green]✓[/] ", f"{len(named)} tables are dropped")
