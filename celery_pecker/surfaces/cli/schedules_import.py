"""``pecker import --schedules``: what another scheduler stores, stored here.

A hundred schedules are one transaction, each with its last run: no scheduler sees the
one without the other. What is stored already is left alone, so a second import changes
nothing.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from operator import attrgetter
from typing import Any, LiteralString, cast

import click
import psycopg
from rich.console import Console
from rich.progress import Progress

from celery_pecker.calendars.checks import zone_of
from celery_pecker.kernel.audit import current_user
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured
from celery_pecker.kernel.sql import render, statements
from celery_pecker.schedules import Schedules
from celery_pecker.surfaces.cli.context import NO, Context
from celery_pecker.surfaces.cli.other_schedulers import rows
from celery_pecker.surfaces.cli.other_schedulers.plan import VERDICTS, judge
from celery_pecker.surfaces.cli.other_schedulers.redbeat import PREFIX, redbeat, runs
from celery_pecker.surfaces.cli.other_schedulers.tables import opened
from celery_pecker.surfaces.cli.other_schedulers.values import ForeignSchedule
from celery_pecker.surfaces.cli.stored_schedules import stored_rows
from celery_pecker.surfaces.console.listing import Listing

PAGE = 100
"""Schedules of one transaction: a scheduler waits for none of them longer than that."""
CONNECT = 5
"""Seconds to connect."""
LONG = 60
"""Letters of a value in a table."""
Steps = Sequence[ForeignSchedule]
PEERS = ("redbeat", "django", "sqlalchemy")
SCHEMA = "celery_schema"
"""Where sqlalchemy-celery-beat has its tables unless the app says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where another scheduler has its schedules; None: as the app's settings say."""

    url: str | None
    zone: str
    """Of instants that are stored without one."""
    prefix: str | None
    """Of RedBeat's keys."""
    schema: str | None
    """Of the tables."""


def import_schedules(
    context: Context, peer: str, place: Place, *, dry_run: bool
) -> None:
    """Store what the other scheduler stores; say what became of each."""
    schedules = context.schedules
    steps = sorted(_read(context, peer, place), key=attrgetter("name"))
    now_us, own = context.project.rows([one.name for one in steps])
    stored = {row.name: row for row in stored_rows(schedules)}
    code = {*schedules.names_of_code(), *context.declared}
    for step in steps:
        row = own.get(step.name)
        judge(
            step,
            stored.get(step.name),
            code=code,
            check=schedules.check,
            own_us=None if row is None else row.executed_us,
            now_us=now_us,
        )
    _write(context, schedules, steps, dry_run=dry_run)
    _print(context, steps, dry_run=dry_run)
    if not dry_run:
        _warn(context, peer, place)
    if not any(step.verdict != "refused" for step in steps):
        context.leave(NO)


def _read(context: Context, peer: str, place: Place) -> Iterator[ForeignSchedule]:
    conf = context.app.conf
    if peer == "redbeat":
        yield from redbeat(*_of_redbeat(context, place))
        return
    plain = zone_of("pecker import", place.zone)
    zones = rows.Zones(cast("tzinfo", plain), str(context.zone))
    if peer == "django":
        url, ways = place.url or context.settings.dsn, rows.django
        schemas: Sequence[str | None] = (place.schema,)
    else:
        url = _required(place.url or conf.get("beat_dburi"), "beat_dburi")
        ways = rows.sqlalchemy
        own = place.schema or conf.get("beat_schema")
        schemas = (own,) if own else (None, SCHEMA)
    with opened(url, schemas, context.settings.database_timeout) as read:
        yield from [*ways(read, zones)]


def _of_redbeat(context: Context, place: Place) -> tuple[str, str]:
    """Return the Redis of RedBeat, and the prefix of its keys."""
    conf = context.app.conf
    url = place.url or conf.get("redbeat_redis_url") or conf.broker_url
    prefix = place.prefix or conf.get("redbeat_key_prefix") or PREFIX
    return _required(url, "redbeat_redis_url"), prefix


def _warn(context: Context, peer: str, place: Place) -> None:
    """Warn if the other scheduler still runs: each slot would come twice."""
    if peer != "redbeat":
        return  # the tables of the others do not say so
    lock = context.app.conf.get("redbeat_lock_key")
    if runs(*_of_redbeat(context, place), lock):
        message = (
            "note: RedBeat runs, by its lock: stop it and import once more before"
            " a scheduler of ours starts, or slots come twice"
        )
        click.echo(message, err=True)


def _required(place: str | None, setting: str) -> str:
    if not place:
        raise Misconfigured(
            f"URL is missing, and the setting {setting} names none; name one"
        )
    return place


def _write(
    context: Context, schedules: Schedules, steps: Steps, *, dry_run: bool
) -> None:
    """Store what is new or changed, with its last run.

    A dry run does the same and takes it back, so that it shows what the tables refuse.
    """
    wanted = [step for step in steps if step.writes or step.last_us is not None]
    last = render(statements()["import_last"], context.settings.schema)
    try:
        with psycopg.connect(
            context.database.dsn, connect_timeout=CONNECT
        ) as connection:
            for page in _pages(wanted):
                with connection.transaction(force_rollback=dry_run):
                    _store(schedules, page, connection)
                    _carry(page, connection, last)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"no answer while storing: {' '.join(str(error).split())}"
        ) from error


def _pages(wanted: Steps) -> Iterator[Steps]:
    """Yield them by pages; show on a terminal how far it is."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as (
        progress
    ):
        shown = progress.add_task("storing", total=len(wanted))
        for start in range(0, len(wanted), PAGE):
            page = wanted[start : start + PAGE]
            yield page
            progress.advance(shown, len(page))


def _carry(
    page: Steps, connection: psycopg.Connection[Any], statement: LiteralString
) -> None:
    """Let slots count from the last run there, unless it has run here already."""
    pairs = [(step, step.last_us) for step in page if step.last_us is not None]
    done = connection.execute(
        statement,
        {
            "now": None,
            "names": [step.name for step, _ in pairs],
            "instants": [from_us(last_us) for _, last_us in pairs],
            "overwrite": False,
        },
    )
    names = {name for (name,) in done}
    for step, _ in pairs:
        if step.name not in names:
            step.last_us = None
            step.note("its last run is not imported: it has run here since")


def _store(
    schedules: Schedules, page: Steps, connection: psycopg.Connection[Any]
) -> None:
    writes = [step for step in page if step.writes]
    wanted = [
        {**step.fields, "name": step.name, "version": step.version} for step in writes
    ]
    stored = schedules.set_each(wanted, by=current_user(), connection=connection)
    for step, outcome in zip(writes, stored, strict=True):
        if isinstance(outcome, Exception):
            step.verdict, step.problem, step.last_us = "refused", str(outcome), None


def _print(context: Context, steps: Steps, *, dry_run: bool) -> None:
    counted = {
        verdict: sum(step.verdict == verdict for step in steps) for verdict in VERDICTS
    }
    document = {
        "dry_run": dry_run,
        "schedules": [step.document() for step in steps],
        **counted,
    }
    if context.print_json(document):
        return
    listing = Listing("name", "what", "ran last", "difference")
    for step in steps:
        listing.add_row(
            step.name,
            step.verdict,
            context.at(step.last_us),
            "; ".join([*_differences(step), *step.notes]),
        )
    if steps:
        context.console.print(listing)
    shown = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    tense = "would be" if dry_run else "are"
    context.print("", f"{len(steps)} schedules: {shown}")
    context.print("", f"{counted['new'] + counted['changed']} {tense} stored")


def _differences(step: ForeignSchedule) -> Iterator[str]:
    if step.problem is not None:
        yield step.problem
    if step.verdict == "code":
        yield "beat_schedule of this app has it: its last run alone is imported"
    if step.verdict == "new":
        yield f"{step.fields['task']} {short(step.fields['schedule'])}"
    for key, (old, new) in step.changes.items():
        yield f"{key}: {short(old)} → {short(new)}"


def short(value: Any) -> str:
    """Return a value in one line of bounded length."""
    if isinstance(value, datetime):
        return value.isoformat()
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONG else f"{text[:LONG]}…"
