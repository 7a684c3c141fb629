"""The page *Outbox*: what waits, when it will be empty, what is parked and why."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from celery_pecker.flower.pages import Page, Query, Source
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import operations
from celery_pecker.outbox.app import settings_of
from celery_pecker.outbox.operations import Which
from celery_pecker.outbox.overview import MessageRow, Overview

if TYPE_CHECKING:
    from celery import Celery

ROWS = 100
"""Messages that a browser gets, at most."""
LONGEST = 400
"""Letters of an error."""
LARGEST_ID = 2**63 - 1
BY_HAND = "parked by {by} in Flower"


class NoSuchMessage(PeckerError, LookupError):
    """This message is not in the outbox any more."""


def shown(app: Celery) -> bool:
    """Return whether the app has an outbox."""
    from celery_pecker.outbox import outboxes  # noqa: PLC0415  # loads psycopg

    return bool(app.conf.get("pecker_dsn")) and bool(outboxes(app))


def places(app: Celery) -> dict[str, Settings]:
    """Return the settings of each outbox of the app by its name."""
    return settings_of(app, Settings.read(app.conf, main=app.main))


def read(source: Source, query: Query) -> dict[str, Any]:
    """Return the figures of all, those of each task, and the messages asked for."""
    overview = Overview(source.database)
    [(now,)] = source.database.run("read_clock", now=None)
    task = query.get("task", "").replace("\0", "")
    parked = query.get("parked") == "1"
    which = Which(
        tasks=[task] if task else None,
        parked=True if parked else None,
        all_rows=not task and not parked,
    )
    rows = overview.rows(which, limit=ROWS + 1)
    return {
        "now": now,
        "summary": asdict(overview.summary()),
        "rows": [_row(row) for row in rows[:ROWS]],
        "more": len(rows) > ROWS,
    }


def _row(row: MessageRow) -> dict[str, Any]:
    fields = asdict(row)
    fields["id"] = str(row.id)  # a number of JavaScript's would be rounded
    for name, value in fields.items():
        if isinstance(value, datetime):
            fields[name] = to_us(value)
    if row.last_error is not None:
        fields["last_error"] = row.last_error[:LONGEST]
    return fields


def _one(name: str) -> Which:
    plain = name.isascii() and name.isdigit()
    if not plain or int(name) > LARGEST_ID:
        raise NoSuchMessage
    return Which(ids=[int(name)])


def _changed(count: int, words: str) -> dict[str, Any]:
    if not count:
        raise NoSuchMessage
    return {"message": words}


def retry(source: Source, name: str, by: str) -> dict[str, Any]:
    """Let a parked message be delivered or run again."""
    del by
    count = operations.retry(source.database, _one(name))
    return _changed(count, "It is tried again, with all its attempts.")


def park(source: Source, name: str, by: str) -> dict[str, Any]:
    """Park a message: nothing delivers or runs it until it is retried."""
    reason = BY_HAND.format(by=by)
    count = operations.park(source.database, _one(name), reason)
    return _changed(count, "Parked: nothing delivers it until it is retried.")


def drop(source: Source, name: str, by: str) -> dict[str, Any]:
    """Delete a message: its task will not run."""
    del by
    count = operations.drop(source.database, _one(name))
    return _changed(count, "Dropped: its task will not run.")


OUTBOX = Page(
    name="outbox",
    title="Outbox",
    url="/outbox",
    template="outbox.html",
    read=read,
    acts={"retry": retry, "park": park, "drop": drop},
    shown=shown,
    places=places,
    unread="The outbox cannot be read",
    comfort=(
        "This says nothing about the messages themselves: relays that reach the"
        " database deliver them."
    ),
)
PAGES = (OUTBOX,)
