"""``pecker schedules``: stored schedules and their changes."""

from __future__ import annotations

import json as jsons
from typing import Any

import click
from celery.bin.base import CeleryCommand

from celery_pecker.schedules import Change, ScheduleRow
from celery_pecker.surfaces.cli.context import NONE, Context, as_json
from celery_pecker.surfaces.console import instants
from celery_pecker.surfaces.console.group import subcommand_follows
from celery_pecker.surfaces.console.listing import Listing

limited = click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=100,
    show_default=True,
    help="Rows shown at most.",
)


@click.group(name="schedules", invoke_without_command=True)
@click.option("--search", help="Those whose name or task contains this.")
@click.option("--task", help="Those of this task only.")
@click.option("--after", help="Those with names after this one: the next page.")
@limited
@as_json
@click.pass_context
def schedules(
    ctx: click.Context,
    /,
    *,
    search: str | None,
    task: str | None,
    after: str | None,
    limit: int,
    json: bool,
) -> None:
    """List stored schedules by name: when they run, who changed them."""
    if subcommand_follows(ctx):
        return
    with Context.open(ctx, json=json) as context:
        rows = context.schedules.list(
            search=search, task=task, after=after, limit=limit
        )
        if context.print_json({"schedules": rows}):
            return
        listing = Listing(
            *("name", "task", "when", "next", "state", "version", "changed by"),
            right={"version"},
        )
        for row in rows:
            listing.add_row(
                row.name,
                row.task,
                row.words or jsons.dumps(row.schedule),
                NONE
                if row.next_due is None
                else instants.for_people(row.next_due, context.zone),
                state(row),
                str(row.version),
                row.changed_by,
            )
        if rows:
            context.console.print(listing)
        if len(rows) == limit:
            click.echo(f"and maybe more: --after {rows[-1].name!r}, --search, …")
        elif not rows:
            click.echo("no schedule is stored" if after is None else "no more")


@schedules.command(cls=CeleryCommand)
@click.argument("name")
@limited
@as_json
@click.pass_context
def history(ctx: click.Context, /, *, name: str, limit: int, json: bool) -> None:
    """Show the changes of a schedule and the users that made them, newest first."""
    with Context.open(ctx, json=json) as context:
        changes = context.schedules.history(name, limit=limit)
        if not changes:
            message = f"nothing is known of a stored schedule {name!r}"
            raise click.ClickException(message)
        if context.print_json({"name": name, "history": changes}):
            return
        listing = Listing("at", "change", "version", "by", "what", right={"version"})
        for nth, one in enumerate(changes):
            older = (two.definition for two in changes[nth + 1 :] if two.definition)
            listing.add_row(
                instants.for_people(one.changed_at, context.zone),
                one.change,
                str(one.version),
                one.changed_by,
                _renamed(one) or difference(one.definition, next(older, None)),
            )
        context.console.print(listing)


def state(row: ScheduleRow) -> str:
    """Return how it is with a schedule, in few words."""
    if row.problem is not None:
        return row.problem
    if row.done:
        return "done"
    return "paused" if row.paused else "ok"


def _renamed(change: Change) -> str:
    if change.other_name is None:
        return ""
    where = "to" if change.definition is None else "from"
    return f"{where} {_short(change.other_name)}"


def difference(new: dict[str, Any] | None, old: dict[str, Any] | None) -> str:
    """Return what a change made different; of the first one, what it made."""
    if new is None:
        return ""
    if old is None:
        made = [f"{key}: {_short(value)}" for key, value in new.items() if value]
        return "; ".join(made)
    return "; ".join(
        f"{key}: {_short(old.get(key))} → {_short(value)}"
        for key, value in new.items()
        if old.get(key) != value
    )


def _short(value: Any) -> str:
    return jsons.dumps(value, ensure_ascii=False)
