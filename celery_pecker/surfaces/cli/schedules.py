"""``pecker schedules``: stored schedules and their changes."""

import click

from celery_pecker.surfaces.cli.context import Context, limited
from celery_pecker.surfaces.console.rendering import print_table
from celery_pecker.surfaces.views.schedules import CHANGES, STORED, compared


@Context.group
@click.option("--search", help="Those whose name or task contains this.")
@click.option("--task", help="Those of this task only.")
@click.option("--after", help="Those with names after this one: the next page.")
@limited
def schedules(
    context: Context, /, *, after: str | None, limit: int, **chosen: str | None
) -> None:
    """List stored schedules by name: when they run, who changed them."""
    rows = context.schedules.list(after=after, limit=limit, **chosen)
    if context.print_json({"schedules": rows}):
        return
    print_table(context, STORED, rows)
    if len(rows) == limit:
        click.echo(f"and maybe more: --after {rows[-1].name!r}, --search, …")
    elif not rows:
        click.echo("no schedule is stored" if after is None else "no more")


@Context.command(group=schedules)
@click.argument("name")
@limited
def history(context: Context, /, *, name: str, limit: int) -> None:
    """Show the changes of a schedule and the users that made them, newest first."""
    changes = context.schedules.history(name, limit=limit)
    if not changes:
        raise click.ClickException(f"nothing is known of a stored schedule {name!r}")
    if context.print_json({"name": name, "history": changes}):
        return
    print_table(context, CHANGES, compared(changes))
