"""``pecker import`` and ``export``: from another scheduler, and back."""

import dbm
import json
import pickle
import shelve
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click
from celery.bin.base import CeleryCommand

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.engine.model import Row
from celery_pecker.schedules.engine.repository import CHUNK
from celery_pecker.schedules.overview.slot_verdicts import alive, count_of_schedulers
from celery_pecker.surfaces.cli.context import NO, Context, instant
from celery_pecker.surfaces.cli.schedules_import import PEERS, Place, import_schedules
from celery_pecker.surfaces.cli.stored_schedules import stored_names

SUFFIXES = (".db", ".dat", ".dir", ".bak", ".pag")
"""What dbm puts behind the name that beat was given."""


UNPICKLING = (
    pickle.PickleError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
)
"""What comes of reading a pickle that is none, or of code that is not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One entry's last run, and what is done with it."""

    name: str
    last_us: int
    verdict: str
    """set: its next slot counts from there; kept: it ran here already; undeclared: this
    code does not know it; ahead: that instant has not come."""


def read(path: Path) -> dict[str, int]:
    """Return the last run by name, from beat's own file or from JSON."""
    if path.is_file() and path.read_bytes()[:1].strip() in {b"{", b""}:
        return _from_json(path)
    return _from_shelf(path)


def _from_json(path: Path) -> dict[str, int]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Misconfigured(f"{path} is no JSON: {error}") from error
    if not isinstance(state, dict):
        raise Misconfigured(f"{path} holds no JSON object of instants by name")
    return {name: _instant(path, name, value) for name, value in state.items()}


def _instant(path: Path, name: str, value: object) -> int:
    instant = moment_of(value) if isinstance(value, str) else None
    if instant is None or instant.tzinfo is None:
        raise Misconfigured(
            f"{path}: the last run of {name!r} is {value!r}; allowed is an instant in"
            " ISO 8601 with its offset, such as '2026-01-01T12:00:00+00:00'"
        )
    return to_us(instant)


def _from_shelf(path: Path) -> dict[str, int]:
    base = path if path.suffix not in SUFFIXES else path.with_suffix("")
    state: dict[str, int] = {}
    for name in (str(path), str(base)):
        if not dbm.whichdb(name):
            continue
        try:
            with shelve.open(name, flag="r") as shelf:  # noqa: S301  # beat's own file
                entries = shelf.get("entries") or {}
        except (*dbm.error, *UNPICKLING) as error:
            raise Misconfigured(
                f"{path} cannot be read as beat's schedule file: {error}"
            ) from error
        for key, entry in entries.items():
            last = getattr(entry, "last_run_at", None)
            if isinstance(last, datetime):
                # Celery takes a time without an offset for UTC.
                state[key] = to_us(last if last.tzinfo else last.replace(tzinfo=UTC))
        return state
    raise Misconfigured(
        f"{path} is neither beat's schedule file (celerybeat-schedule, or what -s says)"
        " nor JSON"
    )


def plan(
    state: Mapping[str, int],
    rows: Mapping[str, Row],
    *,
    declared: Collection[str],
    now_us: int,
    overwrite: bool,
) -> list[ImportedRun]:
    """Return what is to be done with each entry."""
    steps = []
    for name, last_us in sorted(state.items()):
        row = rows.get(name)
        if name not in declared:
            verdict = "undeclared"
        elif last_us > now_us:
            verdict = "ahead"
        elif row is not None and row.epoch and not overwrite:
            verdict = "kept"
        else:
            verdict = "set"
        steps.append(ImportedRun(name=name, last_us=last_us, verdict=verdict))
    return steps


WORDS = {
    "set": "ran last at",
    "kept": "has run here already, kept; not",
    "undeclared": "is neither of this code nor stored, left out; ran last at",
    "ahead": "is left out: that instant has not come:",
}


@Context.command("import")
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
def import_(
    context: Context,
    *,
    source: str | None,
    peer: str | None,
    dry_run: bool,
    overwrite: bool,
    **stored: Any,
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
            raise click.UsageError("--overwrite goes with a FILE only")
        place = Place(url=source, **stored)
        import_schedules(context, peer, place, dry_run=dry_run)
        return
    if source is None:
        raise click.UsageError("Missing argument 'FILE'.")
    file = Path(source)
    declared = {*context.declared, *stored_names(context)}
    state = read(file)
    now_us, rows = context.project.rows([*state])
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
    _, rows = context.project.rows(sorted(names))
    state = {name: instant(row.executed_us) for name, row in sorted(rows.items())}
    click.echo(json.dumps(state, indent=2, ensure_ascii=False), file=output)
