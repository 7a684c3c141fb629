"""Render views as pages of Flower: the outbox, observers and alarms.

A page gets the description of its view once (`described`) and what it shows every two
seconds (`document`); ``view.js`` draws both. A view with a picture of its own brings a
template and a script besides.
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any

from celery import Celery

from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.findings.broker import takers
from celery_pecker.surfaces.flower.pages import (
    Does,
    Names,
    Origin,
    Page,
    Query,
    Source,
)
from celery_pecker.surfaces.views.alarms import ALARMS
from celery_pecker.surfaces.views.audit import AUDIT
from celery_pecker.surfaces.views.history import HISTORY
from celery_pecker.surfaces.views.model import (
    Act,
    Done,
    NoSuchRow,
    Shown,
    Table,
    View,
)
from celery_pecker.surfaces.views.observers import OBSERVERS
from celery_pecker.surfaces.views.outbox import MESSAGE, OUTBOX, Takers

LONGEST, FOLDED = 400, 8_000
"""Letters of a text; of one that is folded, its last."""
OF_COLUMNS = (
    *("key", "label", "kind", "number", "width", "notes", "hint", "chooses", "opens"),
    *("alert", "order", "link"),
)
OF_ACTS = ("name", "label", "asks", "types", "usual", "undo")
OF_TABLES = (
    *("name", "title", "key", "states", "means", "empty", "paged", "order", "nouns"),
    *("by_hand",),
)
KNOWN = 100
"""Words, at most, that a filter offers."""
ASKED_EVERY = 5.0
"""Seconds from an answer of workers to the next question."""
EXACT = 2**53
"""From here on a number of JavaScript's is rounded."""


def described(view: View) -> dict[str, Any]:
    """Return what a page must know of a view before it is drawn."""
    return {
        table.name: {
            **_facts(table, *OF_TABLES),
            "columns": [_facts(one, *OF_COLUMNS) for one in table.shown],
            "facts": [
                _facts(one, "key", "label", "kind", "number")
                for one in table.fields.values()
            ],
            "folded": [one.key for one in table.columns if one.kind == "folded"],
            "acts": [
                {**_facts(one, *OF_ACTS), "every": one.every is not None}
                for one in table.acts
            ],
            "filters": [_facts(one, "key", "label", "kind") for one in table.filters],
        }
        for table in view.tables
    }


def _facts(thing: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def document(view: View, shown: Shown) -> dict[str, Any]:
    """Return what a page shows, as JSON."""
    return {
        "now": shown.now_us,
        "cards": {one.key: one.read(shown.summary)._asdict() for one in view.figures},
        "rows": {
            one.name: rows_of(one, shown.rows[one.name])
            for one in view.tables
            if one.name in shown.rows
        },
        "total": shown.total,
        "size": shown.size,
        "more": shown.more,
        "next": shown.next,
        "notes": dict(shown.notes),
        "known": {
            one.key: sorted({word for word in one.known(shown) if word})[:KNOWN]
            for table in view.tables
            for one in table.filters
            if one.known
        },
        **shown.extra,
    }


def rows_of(table: Table, rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Return rows as a page has them: their fields, and what may be done to each."""
    fields = table.fields
    return [
        {
            **{name: _plain(one.of(row), one.kind) for name, one in fields.items()},
            table.key: str(fields[table.key].of(row)),
            "acts": table.offers(row),
        }
        for row in rows
    ]


def _plain(value: Any, kind: str) -> Any:
    """Return a value as a browser reads it: instants in microseconds."""
    if isinstance(value, datetime):
        return to_us(value)
    if isinstance(value, int) and abs(value) >= EXACT:
        return str(value)
    if isinstance(value, str):
        return value[-FOLDED:] if kind == "folded" else value[:LONGEST]
    return value


class TakersAsked:
    """What workers take, asked on a thread of its own while somebody looks."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._next = 0.0
        self._known: Takers | None = None

    def __call__(self, source: Source) -> dict[str, Any]:
        """Return the last answer, and have one begun that is newer."""
        if SYSTEM.monotonic() >= self._next and self._turn.acquire(blocking=False):
            threading.Thread(target=self._ask, args=[source.app], daemon=True).start()
        return {"takers": self._known}

    def _ask(self, app: Celery) -> None:
        try:
            self._known = takers(app)
        finally:
            self._next = SYSTEM.monotonic() + ASKED_EVERY
            self._turn.release()


def page(
    view: View,
    *,
    source: Callable[[Any], Any] = attrgetter("database"),
    more: Callable[[Any], dict[str, Any]] = lambda _: {},
    **facts: Any,
) -> Page:
    """Return the page of a view.

    Args:
        view: what it shows.
        source: given what the page reads from, returns what the view does.
        more: given that, returns what else the view is read with.
        facts: fields of the page that are not those of every view's.

    """

    def read(given: Any, query: Query) -> dict[str, Any] | None:
        shown = view.read(source(given), query, **more(given))
        return None if shown is None else document(view, shown)

    usual = {
        "url": f"/{view.name}",
        "template": "view.html",
        "unread": f"The {view.title.lower()} cannot be read",
    }
    return Page(
        name=view.name,
        title=view.title,
        view=view,
        read=read,
        does=acts_of(view, source),
        **{**usual, **facts},
    )


def acts_of(view: View, source: Callable[[Any], Any]) -> dict[str, Does]:
    """Return what can be done on the page of a view."""

    def doer(which: Act, table: Table) -> Does:
        def does(given: Any, names: Names, query: Query, by: str, typed: str) -> Done:
            if names is not None:
                return which.do(source(given), names, by, table, typed)
            if which.every is None:
                raise NoSuchRow(f"{which.name} is done to rows that are named")
            rows = which.every(source(given), query, by)
            return Done([view.said(which.name, rows)], ())

        return does

    return {name: doer(*one) for name, one in view.acts.items()}


def _has_outbox(app: Celery) -> bool:
    from celery_pecker.outbox import outboxes  # noqa: PLC0415  # loads psycopg

    return bool(app.conf.get("pecker_dsn")) and bool(outboxes(app))


def _outboxes(app: Celery) -> dict[str, Settings]:
    from celery_pecker.outbox.app import settings_of  # noqa: PLC0415  # loads psycopg

    return settings_of(app, Settings.read(app.conf, main=app.main))


def _has_observers(app: Celery) -> bool:
    from celery_pecker.observers import observers_of  # noqa: PLC0415  # loads psycopg

    return bool(app.conf.get("pecker_dsn")) and observers_of(app) is not None


def _has_tables(app: Celery) -> bool:
    return bool(app.conf.get("pecker_dsn"))


def _find_message(source: Source, task_id: str, task: str) -> Origin | None:
    found = {"task_id": task_id, "task": task}
    for number in source.database.column("find_outbox_message", **found):
        return Origin({"id": str(number)}, f"message {number}")
    return None


PAGES = (
    page(
        OUTBOX,
        shown=_has_outbox,
        places=_outboxes,
        comfort=(
            "This says nothing about the messages themselves: relays that reach the"
            " database deliver them."
        ),
    ),
    page(
        MESSAGE,
        url="/outbox/message",
        template="message.html",
        more=TakersAsked(),
        finds=_find_message,
        under="outbox",
        shown=_has_outbox,
        places=_outboxes,
        unread="The message cannot be read",
    ),
    page(
        OBSERVERS,
        shown=_has_observers,
        template="observers.html",
        comfort=(
            "This says nothing about the observers themselves: hosts that reach the"
            " database run them."
        ),
    ),
    page(
        ALARMS,
        shown=_has_tables,
        comfort="While the database is away nothing is looked at, and nothing rings.",
    ),
    page(
        HISTORY,
        shown=_has_tables,
        template="history.html",
        comfort="Nothing depends on these figures: what cannot be written is left out.",
    ),
    page(AUDIT, shown=_has_tables, unread="What people did cannot be read"),
)
