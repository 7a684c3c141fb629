"""Record who does what; refuse it in a schema that is another app's."""

import getpass
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.kernel import refusals
from celery_pecker.kernel.database import Database, Tables
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError
from celery_pecker.kernel.settings import Settings

logger = logging.getLogger(__name__)

EVERY_ACT: Mapping[str, None] = dict.fromkeys(("search", "act", "done_by", "before"))
LONGEST = 1_000
"""Characters of a subject or an error that are kept."""
DELAY = 10.0
"""Seconds for which an act waits where it can be taken back."""


@dataclass(frozen=True, slots=True)
class ActRow:
    """One act of a person."""

    id: int
    begun_at: datetime
    act: str
    subject: str
    done_by: str
    surface: str
    state: str
    """done, failed, waits, undone; unknown: it goes on, or its process died; lapsed: it
    was due, and for ten minutes nobody did it."""
    error: str
    """Of one that was undone: by whom."""


def acts(database: Database, *, most: int, **which: object) -> Sequence[ActRow]:
    """Return what people did, the newest first.

    Args:
        database: whose tables are read.
        most: so many at most.
        which: part of the subject (`search`), `act`, `done_by`; those `before` an id.
    """
    return database.read(ActRow, "read_acts", **{**EVERY_ACT, **which, "most": most})


@contextmanager
def recorded(
    settings: Settings, act: str, subject: str, *, by: str, surface: str
) -> Iterator[None]:
    """Record an act before it is done, and afterwards what came of it.

    The rows have a connection of their own: an act whose connection breaks is still
    recorded.

    Raises:
        Misconfigured: the schema belongs to another app.
        DatabaseUnavailable: the act could not be recorded, and was not begun.
    """
    database = Database.of(settings, role="audit")
    try:
        with recorded_over(database, settings.app, act, subject, by, surface):
            yield
    finally:
        database.close()


@contextmanager
def recorded_over(
    tables: Tables, app: str, act: str, subject: str, by: str, surface: str
) -> Iterator[None]:
    """Record an act over a connection, as part of its transaction if there is one."""
    number = begin(tables, app, act=act, subject=subject, by=by, surface=surface)
    with ending(tables, number, act):
        yield


def begin(
    tables: Tables,
    app: str,
    *,
    after: float | None = None,
    asked: str | None = None,
    **texts: str,
) -> int:
    """Record an act that is begun now, or is due after so many seconds.

    Args:
        tables: what runs the statement.
        app: whose act it is.
        after: seconds for which it waits; None: it is done at once.
        asked: of one that waits what is to be done, for who will do it.
        texts: act, subject, by, surface.

    Raises:
        Misconfigured: the schema belongs to another app.
    """
    kept = {name: _kept(text) for name, text in texts.items()}
    rows = tables.run("begin_act", app=app, after=after, asked=asked, **kept)
    [(number, owner)] = rows
    if number is None:
        raise refusals.foreign(tables.schema, owner, app)
    return int(number)


@contextmanager
def ending(tables: Tables, number: int, act: str) -> Iterator[None]:
    """Record what comes of an act that was begun."""
    try:
        yield
    except (DatabaseUnavailable, KeyboardInterrupt):
        raise  # it is not known whether it was done
    except BaseException as error:
        _end(tables, number, act, f"{type(error).__name__}: {error}")
        raise
    _end(tables, number, act, None)


def _end(tables: Tables, number: int, act: str, error: str | None) -> None:
    """Write what came of it. Where that fails the row stays: unknown."""
    kept = None if error is None else _kept(error)
    try:
        tables.run("end_act", id=number, error=kept)
    except PeckerError as failed:
        logger.warning(
            "what came of act %d (%s) is not recorded: %s", number, act, failed
        )


def _kept(text: str) -> str:
    """Return a text as PostgreSQL can hold it; a browser may send half of a pair."""
    return text.encode(errors="backslashreplace").decode().replace("\0", " ")[:LONGEST]


def current_user() -> str:
    """Return the user of this machine who runs the process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
