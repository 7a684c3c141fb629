"""How ``pecker outbox`` shows its figures and its rows."""

from __future__ import annotations

from collections.abc import Sequence

import click

from celery_pecker.cli.context import Context, seconds
from celery_pecker.console import instants
from celery_pecker.console.listing import Listing
from celery_pecker.kernel.lease import SECOND
from celery_pecker.outbox.overview import MessageRow, Summary


def print_summary(context: Context, summary: Summary) -> None:
    """Print how deep an outbox is, by task too, and which relays live."""
    least = "about " if summary.more else ""
    click.echo(
        f"{least}{summary.depth} due, the oldest for {_length(summary.oldest)};"
        f" {summary.rate:.1f}/s; empty in {_empty(summary)};"
        f" {summary.later} later, {summary.parked} parked"
    )
    if summary.more:
        click.echo(
            f"over {summary.counted} messages: by task the first of them are counted,"
            " the rest is reckoned by PostgreSQL's statistics"
        )
    away = [one for one in summary.relays if one.broker is not None]
    click.echo(f"{len(summary.relays)} relays live")
    for one in away:
        context.print("", f"the broker is away for {one.host} {one.pid}: {one.broker}")
    heads = (
        "task",
        "waiting",
        "held",
        "later",
        "parked",
        "oldest",
        "per s",
        "attempts",
    )
    listing = Listing(*heads, right=heads[1:])
    for task in summary.tasks:
        listing.add_row(
            task.task,
            *map(str, (task.waiting, task.held, task.later, task.parked)),
            _length(task.oldest),
            f"{task.rate:.1f}",
            str(task.attempt),
        )
    if summary.tasks:
        context.console.print(listing)


def _empty(summary: Summary) -> str:
    if summary.drained_in is None:
        return "never, as it is"
    return _length(summary.drained_in)


def _length(length: float | None) -> str:
    return seconds(None if length is None else round(length * SECOND))


def rows_listing(context: Context, rows: Sequence[MessageRow]) -> Listing:
    """Return the table of rows."""
    heads = ("id", "task", "state", "attempts", "due", "queue", "task id", "error")
    listing = Listing(*heads, right={"id", "attempts"})
    for one in rows:
        listing.add_row(
            str(one.id),
            one.task,
            one.state,
            str(one.attempt),
            instants.for_people(one.due_at, context.zone),
            one.exchange or one.routing_key,
            one.task_id,
            one.last_error or "",
        )
    return listing
