"""The page *Observers*: hosts with their room, what runs where, one observer."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from celery_pecker.flower.pages import Page, Query, Source
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.observers import operations
from celery_pecker.observers.model import Answer, NodeRow, ObserverRow
from celery_pecker.observers.overview import SHOWN, Overview, Summary, Which

if TYPE_CHECKING:
    from celery import Celery

ROWS = 50
"""Observers of one page."""
HOSTS = 200
"""Hosts that a browser gets, at most."""
EVENTS = 200
"""Of the life of one, the newest."""
LONGEST = 400
"""Letters of an error, and of arguments and cursor."""
LONGEST_NAME = 500
DIGITS = 6
"""Of a page's number, at most."""

STOPS = {
    Answer.ASKED: "It is asked to end.",
    Answer.NOT_ACTIVE_YET: "Deleted: no host had run it.",
    Answer.ALREADY_ASKED: "It was asked to end before.",
}


class NoSuchObserver(PeckerError, LookupError):
    """This observer, or this host, is not there any more."""


def shown(app: Celery) -> bool:
    """Return whether the app has observers."""
    from celery_pecker.observers import observers_of  # noqa: PLC0415  # loads psycopg

    return bool(app.conf.get("pecker_dsn")) and observers_of(app) is not None


def read(source: Source, query: Query) -> dict[str, Any]:
    """Return hosts, figures of all, a page of observers, and the life of one."""
    overview = Overview(source.database)
    [(now,)] = source.database.run("read_clock", now=None)
    number = query.get("page", "")[:DIGITS]
    at = int(number) if number.isascii() and number.isdigit() else 1
    place = _text(query, "place")
    which = Which(
        search=_text(query, "search"),
        node=_text(query, "node"),
        place=place if place in {*map(str, SHOWN)} else None,
    )
    page = overview.page(which, limit=ROWS, skip=(max(at, 1) - 1) * ROWS)
    summary = overview.summary()
    return {
        "now": now,
        "summary": _figures(summary),
        "hosts": [_host(one) for one in summary.hosts[:HOSTS]],
        "rows": [_row(one) for one in page.rows],
        "total": page.total,
        "size": ROWS,
        "life": _life(overview, _text(query, "name")),
    }


def _text(query: Query, name: str) -> str | None:
    return query.get(name, "").replace("\0", "").strip()[:LONGEST_NAME] or None


def _figures(summary: Summary) -> dict[str, Any]:
    return {
        "places": {str(place): summary.count(place) for place in SHOWN},
        "hosts": len(summary.hosts),
        "taking": len(summary.taking),
        "capacity": summary.capacity,
        "free": summary.free,
        "oldest_waiting": summary.oldest_waiting,
        "unsent": {
            "count": summary.unsent.count,
            "oldest": summary.unsent.oldest,
            "error": (summary.unsent.error or "")[:LONGEST],
        },
    }


def _host(host: NodeRow) -> dict[str, Any]:
    return {
        "id": host.node,
        "name": host.name,
        "state": host.state if host.lease > 0 else "lapsed",
        "capacity": host.capacity,
        "load": host.load,
        "observers": host.observers,
        "lease": host.lease,
    }


def _row(row: ObserverRow) -> dict[str, Any]:
    made = _plain(asdict(row))
    for name in ("args", "state"):
        value = made[name]
        shown = "" if value is None else json.dumps(value, ensure_ascii=False)
        made[name] = shown[:LONGEST]
    return made


def _life(overview: Overview, name: str | None) -> dict[str, Any] | None:
    """Return an observer with what happened to it, oldest first; None: none is asked.

    Of a name that was used again the row is the newest, and so are the events.
    """
    row = None if name is None else overview.get(name)
    if row is None:
        return None
    events = overview.history(row.name, limit=EVENTS)
    mine = [one for one in reversed(events) if one.observer == row.id]
    return {"row": _row(row), "events": [_plain(asdict(one)) for one in mine]}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as a browser reads them: instants in microseconds, ids as text."""
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = to_us(value)
        elif name in {"id", "observer", "epoch"}:
            values[name] = str(value)  # a number of JavaScript's would be rounded
        elif name in {"error", "last_error"} and value is not None:
            values[name] = value[:LONGEST]
    return values


def stop(source: Source, name: str, by: str) -> dict[str, Any]:
    """Ask for the end of an observer."""
    del by
    answer = operations.stop(source.database, name)
    if answer not in STOPS:
        raise NoSuchObserver
    return {"message": STOPS[answer]}


def restart(source: Source, name: str, by: str) -> dict[str, Any]:
    """End the life of an observer and begin another."""
    del by
    if operations.restart(source.database, name) is not Answer.ASKED:
        raise NoSuchObserver
    return {"message": "It begins again, with all its retries."}


def drain(source: Source, name: str, by: str) -> dict[str, Any]:
    """Have a host hand over what it holds."""
    del by
    if not operations.drain(source.database, name):
        raise NoSuchObserver
    return {"message": "The host hands over what it holds, and takes nothing more."}


def undrain(source: Source, name: str, by: str) -> dict[str, Any]:
    """Let a host take observers again."""
    del by
    if not operations.undrain(source.database, name):
        raise NoSuchObserver
    return {"message": "The host takes observers again."}


OBSERVERS = Page(
    name="observers",
    title="Observers",
    url="/observers",
    template="observers.html",
    read=read,
    acts={"stop": stop, "restart": restart, "drain": drain, "undrain": undrain},
    shown=shown,
    unread="The observers cannot be read",
    comfort=(
        "This says nothing about the observers themselves: hosts that reach the"
        " database run them."
    ),
)
PAGES = (OBSERVERS,)
