"""``celery -A proj pecker …``: the command line."""

from __future__ import annotations

import click
from celery.bin.base import CeleryCommand
from rich.console import Console

from celery_pecker import declarations, migrations, worker
from celery_pecker.errors import PeckerError
from celery_pecker.settings import Settings

# The celery command imports this module before it loads the app (entry point
# celery.commands): the one moment at which what only settings ask for can be hooked in.
declarations.watch_for_twins()
worker.connect()


@click.group(name="pecker")
def pecker() -> None:
    """Schedules that keep their pace whatever dies."""


@pecker.command(cls=CeleryCommand)
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Print the statements for your DBA instead of running them.",
)
@click.option(
    "--after",
    type=click.IntRange(0, migrations.LATEST),
    default=0,
    show_default=True,
    help="With --sql: leave out the steps up to this one.",
)
@click.pass_context
def migrate(ctx: click.Context, *, as_sql: bool, after: int) -> None:
    """Bring the tables up to this version. Safe to run again, and side by side."""
    app = ctx.obj.app
    try:
        settings = Settings.read(app.conf, main=app.main)
        if as_sql:
            click.echo(migrations.script(settings.schema, after=after), nl=False)
            return
        taken = migrations.migrate(settings.dsn, schema=settings.schema)
    except PeckerError as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    for step in taken:
        console.print(f"[green]✓[/] {step.version:04} {step.name}")
    console.print(f"schema {settings.schema!r} is at step {migrations.LATEST}")
