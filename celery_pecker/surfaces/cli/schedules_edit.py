"""``pecker set``, ``once``, ``rename``, ``remove``: edits of stored schedules."""

import json as jsons
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from typing import Any, TypeVar

import click
import psycopg

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.audit import current_user
from celery_pecker.kernel.declared import suggestion
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.kernel.hosts import BoundedConnection
from celery_pecker.schedules import ScheduleRow
from celery_pecker.schedules.stored.fields import Preview, arguments, preview, texts
from celery_pecker.schedules.stored.form_fields import FIELDS, KINDS, Field
from celery_pecker.surfaces.cli.context import NO, Context
from celery_pecker.surfaces.console import instants
from celery_pecker.surfaces.console.database_context import acting
from celery_pecker.surfaces.findings.broker import known_tasks

Command = TypeVar("Command", bound=Callable[..., Any])
OF_SCHEDULE = ("zone", "calendar", "days", "jitter", "splay")
"""Options that another kind of schedule does not take over."""
ZONED = {"cron", "crontab", "rrule", "recurrence"}
"""Kinds that go by a zone, or say why not."""
OPTIONS = {kind: f"--{kind}" for kind in KINDS if kind not in {"once", "json"}}
OPTIONS["json"] = "--schedule"
"""Options that say when, by the kind that a form has for them."""
ARGUMENTS = tuple(one for one in FIELDS if one.kind == "json")
OTHERS = tuple(one for one in FIELDS if one.kind in {"text", "choice"})[4:]
"""Fields but for name, task, kind and value."""
SWITCHES = tuple(one for one in FIELDS if one.kind == "check")
of_version = click.option(
    "--version",
    type=click.IntRange(0),
    help="The version that this is for; 0: there must be none. Refused if it differs.",
)


def _with(fields: Sequence[Field]) -> Callable[[Command], Command]:
    """Decorate a command with an option for each of these fields."""

    def decorate(command: Command) -> Command:
        for one in reversed(fields):
            option = f"--{one.name.replace('_', '-')}"
            if one.kind == "check":
                option += f"/--no-{one.name}"
            text = one.help or one.label
            text = text[0].upper() + text[1:]
            choices = ", ".join(value for value, _ in one.choices if value)
            text = f"{text}: {choices}." if choices else f"{text}."
            command = click.option(option, one.name, default=None, help=text)(command)
        return command

    return decorate


def _with_kinds(command: Command) -> Command:
    for kind, option in reversed(OPTIONS.items()):
        one = KINDS[kind]
        text = f"{one.value}: {one.hint}, as {one.example}"
        command = click.option(option, f"kind_{kind}", help=text)(command)
    return command


@Context.command("set")
@click.argument("name")
@click.option("--task", help="Name of the task; needed for a new schedule.")
@_with(ARGUMENTS)
@_with_kinds
@_with((*OTHERS, *SWITCHES))
@of_version
@click.option("--dry-run", is_flag=True, help="Show the next five runs; store nothing.")
def set_(
    context: Context, /, *, name: str, version: int | None, dry_run: bool, **named: Any
) -> None:
    """Store a schedule, or change what is named of a stored one.

    Instants are ISO 8601; without an offset they are local time of the app's zone. ''
    empties a field. Every scheduler follows within a second.
    """
    row = context.schedules.get(name)
    wanted = _texts(row, name, named)
    seen = preview(context.schedules, wanted)
    if dry_run and seen.problem is not None:
        raise InvalidField(seen.problem, field=seen.field or "schedule")
    fields = _arguments(wanted, context.zone)
    fields.pop("version", None)
    fields["name"] = name  # a form reads it without the blanks around it
    if named["paused"] is None and row is not None:
        fields.pop("paused", None)  # a pause since then is no other version
    # What was not named stays as it was read: an edit in between is refused.
    known = 0 if row is None else row.version
    change = partial(
        context.schedules.set,
        **fields,
        version=known if version is None else version,
        by=current_user(),
    )
    if dry_run:
        _refuse(context, change)
        _show(context, name, row, seen)
    else:
        with context.recorded("schedules set", name):
            _say(context, change())
        _name_unknown(context, wanted["task"])


def _refuse(context: Context, change: Callable[..., ScheduleRow]) -> None:
    """Raise what the edit would raise; it is rolled back."""
    settings = context.settings
    try:
        with (
            BoundedConnection.within(settings.dsn, settings.database_timeout) as line,
            line.transaction(force_rollback=True),
        ):
            change(connection=line)
    except psycopg.Error as error:
        raise Misconfigured(f"{context.database.where} refuses it: {error}") from error


@Context.command()
@click.argument("task")
@click.option("--at", required=True, help="When: ISO 8601, or local time of the app.")
@click.option("--name", help="Of the entry; one is made if there is none.")
@_with(ARGUMENTS)
@acting("schedules once", "task", "name")
def once(
    context: Context, /, *, task: str, at: str, name: str | None, **named: str | None
) -> None:
    """Store one run of a task."""
    decoded = {key: _json(key, text) for key, text in named.items() if text}
    version = {} if name is None else {"version": 0}
    row = context.schedules.once(
        task, at=at, name=name, by=current_user(), **version, **decoded
    )
    _say(context, row)
    _name_unknown(context, task)


@Context.command()
@click.argument("name")
@click.argument("to")
@of_version
@acting("schedules rename", "name", "to")
def rename(context: Context, /, *, name: str, to: str, version: int | None) -> None:
    """Give a stored schedule another name; its slots come as they would have come."""
    row = context.schedules.rename(name, to, version=version, by=current_user())
    _say(context, row)


@Context.command()
@click.argument("name")
@of_version
@acting("schedules remove")
def remove(context: Context, /, *, name: str, version: int | None) -> None:
    """Remove a stored schedule."""
    removed = context.schedules.remove(name, version=version, by=current_user())
    if not context.print_json({"name": name, "removed": removed}) and removed:
        click.echo(f"{name!r} is removed")
    if not removed:
        click.echo(f"no stored schedule is named {name!r}", err=True)
        context.leave(NO)


def _arguments(wanted: Mapping[str, str], zone: tzinfo) -> dict[str, Any]:
    """Return the arguments of `Schedules.set`; an error names the option."""
    try:
        return arguments(wanted, zone=zone)
    except InvalidField as error:
        option = OPTIONS.get(wanted["kind"], "value")
        if error.field != "value":
            raise
        raise InvalidField(
            str(error).replace("value", option, 1), field=error.field
        ) from error


def _texts(
    row: ScheduleRow | None, name: str, named: Mapping[str, Any]
) -> dict[str, str]:
    """Return the fields of a form: those of the row, and what is named instead."""
    filled = {} if row is None else dict(texts(row))
    filled["name"] = name
    kinds = [key for key in OPTIONS if named[f"kind_{key}"] is not None]
    if len(kinds) > 1:
        options = " and ".join(OPTIONS[key] for key in kinds)
        raise click.UsageError(f"{options} exclude one another")
    if row is None and not kinds:
        allowed = ", ".join(OPTIONS.values())
        raise click.UsageError(
            f"there is no schedule {name!r}; to make one, name one of {allowed}"
        )
    if row is None and named["task"] is None:
        raise click.UsageError(
            f"there is no schedule {name!r}; to make one, name --task"
        )
    if kinds:
        # Another schedule, with options of its own.
        filled |= dict.fromkeys(OF_SCHEDULE, "")
        filled |= {"kind": kinds[0], "value": named[f"kind_{kinds[0]}"]}
    for key in ("task", *(one.name for one in (*ARGUMENTS, *OTHERS))):
        if named[key] is not None:
            filled[key] = named[key]
    for one in SWITCHES:
        if named[one.name] is not None:
            filled[one.name] = "on" if named[one.name] else ""
    filled.pop("version", None)
    local = named["start"] or named["end"]
    if named["zone"] and not local and filled["kind"] not in ZONED:
        raise click.UsageError(
            "--zone goes with --cron, --rrule, --recurrence, --start or --end"
        )
    return filled


def _json(key: str, text: str) -> Any:
    try:
        return jsons.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(
            f"{key} is {text!r}; allowed is JSON ({error})", field=key
        ) from error


def _say(context: Context, row: ScheduleRow) -> None:
    if not context.print_json(row):
        context.print("", f"{row.name!r} is at version {row.version}: {row.words}")
        context.print("", _next(context, row))


def _name_unknown(context: Context, task: str) -> None:
    """Say which task neither this app nor a worker that answers has."""
    load_app(context.app)
    known = {*context.app.tasks}
    if task not in known:
        known |= known_tasks(context.app)
    if task not in known:
        told = f"note: no worker that answers has the task {task!r}, nor has this app"
        click.echo(told + suggestion(task, known), err=True)


def _next(context: Context, row: ScheduleRow) -> str:
    if row.paused:
        return "paused: its slots pass without a run"
    if row.next_due is None:
        return "nothing is left to run"
    return f"next: {instants.for_people(row.next_due, context.zone)}"


def _show(context: Context, name: str, row: ScheduleRow | None, seen: Preview) -> None:
    """Show what would be stored: words, and the next runs by this machine's clock."""
    verdict = "new" if row is None else "change"
    version = 0 if row is None else row.version
    document = {
        "dry_run": True,
        "name": name,
        "what": verdict,
        "version": version,
        "words": seen.words,
        "runs": seen.runs,
    }
    if context.print_json(document):
        return
    context.print("", seen.words)
    for run in seen.runs:
        context.print("", instants.for_people(run, context.zone))
