"""``pecker migrate``: the tables."""

import click

from celery_pecker.kernel import migrations
from celery_pecker.surfaces.cli.context import Context, number


@Context.command()
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Print the statements for your DBA instead of running them.",
)
@number(
    "--after",
    0,
    migrations.LATEST,
    "With --sql: leave out the steps up to this one.",
    0,
)
def migrate(context: Context, *, as_sql: bool, after: int) -> None:
    """Bring the tables up to this version. Safe to run again, and side by side."""
    settings = context.settings
    if as_sql:
        click.echo(migrations.script(settings.schema, after=after), nl=False)
        return
    taken = migrations.migrate(settings.dsn, schema=settings.schema)
    document = {
        "schema": settings.schema,
        "step": migrations.LATEST,
        "taken": [step.version for step in taken],
    }
    if context.print_json(document):
        return
    for step in taken:
        context.console.print(f"[green]✓[/] {step.version:04} {step.name}")
    context.console.print(f"schema {settings.schema!r} is at step {migrations.LATEST}")
