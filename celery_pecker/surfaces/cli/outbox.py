"""``pecker outbox``: what waits in an outbox, and what people do to it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate

import click

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox import operations
from celery_pecker.outbox.operations import Which
from celery_pecker.outbox.overview import OutboxOverview
from celery_pecker.outbox.refusals import LONGEST_DELAY
from celery_pecker.outbox.runs.load import MAX_PAUSE, MAX_THREADS, Load
from celery_pecker.surfaces.cli.context import NO, Context, limited, number
from celery_pecker.surfaces.console.rendering import filters, print_figures, print_table
from celery_pecker.surfaces.findings.broker import takers
from celery_pecker.surfaces.views.model import Query
from celery_pecker.surfaces.views.outbox import (
    GONE,
    GROUPS,
    MESSAGES,
    OUTBOX,
    TASKS,
    chosen,
    error_groups,
    retry_group,
)
from celery_pecker.surfaces.views.outbox import explain as why
from celery_pecker.surfaces.views.phrases import plural

BY_HAND = ("parked", "task", "ids")
"""Filters of the page that have options of their own here: several tasks, any ids."""
of_outbox = click.option(
    "--outbox",
    "name",
    metavar="NAME",
    default="default",
    show_default=True,
    help="Which outbox of the app.",
)


def in_outbox(command: Callable[Concatenate[Context, Database, ...], None]) -> Any:
    """Make a command of what it does in a context, with an outbox of the app."""

    @wraps(command)
    def call(context: Context, /, *, name: str, **options: Any) -> None:
        command(context, _chosen(context, name), **options)

    return Context.command(group=outbox, last=[of_outbox])(call)


def changing(command: Callable[Concatenate[Context, Database, ...], int]) -> Any:
    """Make a command of what changes chosen rows of an outbox and returns how many.

    It is recorded; where there were none the answer is no.
    """
    name = command.__name__

    @wraps(command)
    def call(context: Context, database: Database, /, **options: Any) -> None:
        with context.recorded(f"outbox {name}", _described(options)):
            count = command(context, database, **options)
            if not context.print_json({"rows": count}):
                rescheduled = f"Rescheduled: {plural(count, 'message')}."
                acts = OUTBOX.acts
                click.echo(OUTBOX.said(name, count) if name in acts else rescheduled)
            if not count:
                context.leave(NO)

    return in_outbox(rows(call, *(["error"] if name == "retry" else [])))


def _described(options: Mapping[str, Any]) -> str:
    """Return which rows the options of a command mean, or what else they say."""
    options = {**options, **options.get("query", {}), "query": None}
    given = {name: value for name, value in options.items() if value}
    given.pop("all_rows", None)
    ids = " ".join(str(one) for one in given.pop("ids", ()))
    parts = [f"{name} {_text(value)}".strip() for name, value in given.items()]
    return ", ".join([ids, *parts] if ids else parts) or "all rows"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if value is True else str(value)


def rows(command: Any, *but: str) -> Any:
    """Add the options that say which rows are meant, `but` for some filters."""
    command = filters(MESSAGES, *BY_HAND, *but)(command)
    for option in (
        click.option("--all", "all_rows", is_flag=True, help="Each row of the outbox."),
        click.option(
            "--attempts-from",
            type=click.IntRange(1, operations.MAX_ATTEMPT),
            help="Rows with so many attempts or more.",
        ),
        click.option("--parked", is_flag=True, help="Rows that are parked."),
        click.option("--task", "tasks", multiple=True, help="Rows of this task."),
        click.argument("ids", nargs=-1, type=click.IntRange(1)),
    ):
        command = option(command)
    return command


def due(command: Any) -> Any:
    """Add the options that say when rows are due."""
    seconds = click.FloatRange(0.0, LONGEST_DELAY)
    for option in (
        click.option("--delay", type=seconds, help="Seconds from now on; 0: at once."),
        click.option("--at", help="When they are due, in ISO 8601; naive: app's zone."),
    ):
        command = option(command)
    return command


@Context.group
@of_outbox
def outbox(context: Context, /, *, name: str) -> None:
    """Show what waits in an outbox: how deep it is, and when it will be empty."""
    summary = OutboxOverview(_chosen(context, name)).summary()
    if not context.print_json(summary):
        print_figures(context, OUTBOX, summary)
        if summary.more:
            click.echo(
                f"over {summary.counted} messages: by task the first of them are"
                " counted, the rest is reckoned by PostgreSQL's statistics"
            )
        print_table(context, TASKS, summary.tasks)


@in_outbox
@rows
@limited
def show(context: Context, database: Database, /, *, limit: int, **which: Any) -> None:
    """List rows, those with the most attempts first."""
    if not any(which.values()):
        which["all_rows"] = True
    shown = OutboxOverview(database).rows(meant(database, **which), limit=limit)
    if not context.print_json({"rows": shown}):
        print_table(context, MESSAGES, shown)
    if not shown:
        context.leave(NO)


@in_outbox
@click.argument("number", metavar="ID", type=click.IntRange(1))
def explain(context: Context, database: Database, /, *, number: int) -> None:
    """Show why a message waits, or is never delivered or run."""
    found = why(database, number, takers(context.app))
    if found is None:
        raise click.ClickException(GONE)
    context.print_verdict(found[1], str(number))


@in_outbox
def errors(context: Context, database: Database, /) -> None:
    """Show why rows are parked: errors that are one, with their tasks."""
    groups, note = error_groups(database)
    if not context.print_json({"groups": groups, "note": note}):
        print_table(context, GROUPS, groups)
        click.echo(note or f"{plural(len(groups), 'error')}.")
    if not groups:
        context.leave(NO)


@changing
@due
@click.option("--error", "error", help="Parked rows of this error: a key of `errors`.")
def retry(
    context: Context,
    database: Database,
    /,
    *,
    at: str | None,
    delay: float | None,
    error: str | None,
    **which: Any,
) -> int:
    """Let parked rows be delivered or run again, with all their attempts.

    They are due at once, or when --at or --delay says.
    """
    if error is not None and any(which.values()):
        raise click.UsageError("--error names its rows by itself: no others with it")
    instant = _instant(at, context)
    if error is not None:
        return retry_group(database, error, at=instant, delay=delay)
    return operations.retry(database, meant(database, **which), at=instant, delay=delay)


@changing
@click.option("--reason", default="parked by hand", show_default=True)
def park(_: Context, database: Database, /, *, reason: str, **which: Any) -> int:
    """Park rows: nothing delivers or runs them until they are retried."""
    return operations.park(database, meant(database, **which), reason)


@changing
def drop(_: Context, database: Database, /, **which: Any) -> int:
    """Delete rows: their tasks will not run."""
    return operations.drop(database, meant(database, **which))


@changing
@due
@number("--attempt", 0, operations.MAX_ATTEMPT, "So many attempts count from now on.")
@click.option(
    "--ended",
    is_flag=True,
    help="Runs of these rows are known to have ended: their holds are over too.",
)
def reschedule(  # what can be changed
    context: Context,
    database: Database,
    /,
    *,
    at: str | None,
    delay: float | None,
    attempt: int | None,
    ended: bool,
    **which: Any,
) -> int:
    """Change when rows are due, or how many attempts they have had.

    Parked rows stay parked: `retry --delay` lets them run later.
    """
    if at is None and delay is None and attempt is None and not ended:
        raise click.UsageError(
            "nothing to change: give --at, --delay, --attempt or --ended"
        )
    return operations.reschedule(
        database,
        meant(database, **which),
        at=_instant(at, context),
        delay=delay,
        attempt=attempt,
        ended=ended,
    )


def _chosen(context: Context, name: str) -> Database:
    """Return the database of an outbox of the app; the context is of it from now on."""
    known_ones = context.project.outboxes
    if name not in known_ones:
        names = ", ".join(sorted(known_ones))
        raise Misconfigured(f"--outbox {name!r}: the app has {names}")
    context.settings = known_ones[name]
    context.database = Database.of(known_ones[name], role="cli")
    return context.database


def meant(database: Database, *, query: Query, all_rows: bool, **named: Any) -> Which:
    """Return which rows the options mean."""
    which = {name: value for name, value in named.items() if value}
    if not (which or query or all_rows):
        raise click.UsageError(
            "name rows: IDS, --task, --parked, --attempts-from, or --all"
        )
    [(now,)] = database.run("read_clock", now=None)
    return replace(chosen(query, now), **which)


def _instant(text: str | None, context: Context) -> datetime | None:
    if text is None:
        return None
    instant = moment_of(text, context.zone)
    if instant is None:
        raise click.UsageError(f"--at {text!r} is no instant as ISO 8601 has it")
    return instant


_pause = click.FloatRange(0.0, MAX_PAUSE)


@in_outbox
@click.option(
    "--threads", type=click.IntRange(0, MAX_THREADS), help="Of each worker; 0: none."
)
@click.option("--pause-empty", type=_pause, help="Seconds when nothing was due.")
@click.option("--pause-error", type=_pause, help="Seconds after a run that failed.")
@click.option("--pause-done", type=_pause, help="Seconds after one that succeeded.")
@click.option("--only", multiple=True, help="Run this task only (may be repeated).")
@click.option("--everything", is_flag=True, help="Run all tasks again.")
@click.option("--default", is_flag=True, help="First set all of it back.")
def load(
    context: Context, database: Database, /, *, default: bool, **options: Any
) -> None:
    """Show or change threads, pauses and urgent tasks of modes local and until_done."""
    everything, only = options.pop("everything"), options.pop("only")
    changes = {key: value for key, value in options.items() if value is not None}
    if only or everything:
        changes["only"] = None if everything else only
    current = Load.now(database)
    if changes or default:
        known = asdict(Load() if default else current)
        with context.recorded("outbox load", _described(changes) or "default"):
            current = operations.set_load(database, **{**known, **changes})
    if not context.print_json(asdict(current)):
        for key, value in asdict(current).items():
            shown = "all" if value is None else value
            click.echo(f"{key.replace('_', ' ')}: {shown}")
