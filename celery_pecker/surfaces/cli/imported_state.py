"""What another scheduler remembers, and what becomes of it here."""

from __future__ import annotations

import dbm
import json
import pickle
import shelve
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.engine.model import Row

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
        message = f"{path} is no JSON: {error}"
        raise Misconfigured(message) from error
    if not isinstance(state, dict):
        message = f"{path} holds no JSON object of instants by name"
        raise Misconfigured(message)
    return {name: _instant(path, name, value) for name, value in state.items()}


def _instant(path: Path, name: str, value: object) -> int:
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        message = (
            f"{path}: the last run of {name!r} is {value!r}; allowed is an instant in"
            " ISO 8601 with its offset, such as '2026-01-01T12:00:00+00:00'"
        )
        raise Misconfigured(message)
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
            message = f"{path} cannot be read as beat's schedule file: {error}"
            raise Misconfigured(message) from error
        for key, entry in entries.items():
            last = getattr(entry, "last_run_at", None)
            if isinstance(last, datetime):
                # Celery takes a time without an offset for UTC.
                state[key] = to_us(last if last.tzinfo else last.replace(tzinfo=UTC))
        return state
    message = (
        f"{path} is neither beat's schedule file (celerybeat-schedule, or what -s says)"
        " nor JSON"
    )
    raise Misconfigured(message)


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
