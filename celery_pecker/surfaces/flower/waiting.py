"""Acts that wait for some seconds, in which people may take them back.

Such an act is a row of `pecker_acts`. The Flower that was asked does it when it is due;
if it has ended by then, the next page of any Flower of the app that reads the same
tables does. One statement gives it to exactly one of them.
"""

import json
from collections.abc import Mapping
from typing import Any

from celery_pecker.kernel import audit
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError
from celery_pecker.surfaces.flower.pages import Asked, Page, Source, registered
from celery_pecker.surfaces.views.model import NoSuchRow, number

UNDO = "undo"
DIGITS = 18
"""Of the number of an act, at most."""


def ask(source: Source, *, page: Page, asked: Asked) -> dict[str, Any]:
    """Record what is to be done in some seconds.

    Of all rows that match, those are meant that are there now.
    """
    name, subject = page.act_name(asked.act), asked.subject
    if asked.names is None:
        [(now_us,)] = source.database.run("read_clock", now=None)
        asked = asked._replace(query={**asked.query, "until": str(now_us)})
    audit.begin(
        source.database,
        source.settings.app,
        after=audit.DELAY,
        asked=json.dumps({**asked._asdict(), "page": page.name}),
        act=name,
        subject=subject,
        by=asked.by,
        surface="Flower",
    )
    return {"message": f"In {audit.DELAY:.0f} s, if nobody undoes it: {name} {subject}"}


def undo(source: Source, *, asked: Asked) -> dict[str, Any]:
    """Take back an act that nobody has begun to do.

    Raises:
        NoSuchRow: it is done by now, or was taken back before.
    """
    id_ = number(asked.subject, DIGITS)
    if not source.database.run("undo_act", id=id_, by=asked.by):
        message = (
            f"act {asked.subject} does not wait any more: the audit says what came"
        )
        raise NoSuchRow(message + " of it")
    return {"message": "Undone: it was not done."}


def shown(source: Source) -> dict[str, Any]:
    """Return what waits in a database, as pages show it."""
    return {"waiting": source.database.read(dict, "read_waiting_acts")}


def due(data: Mapping[str, Any]) -> bool:
    """Return whether something that waits, as a page shows it, is due."""
    acts = data.get("waiting", ())
    return any(one["state"] == "waits" and one["due_us"] <= data["now"] for one in acts)


def carry_out(source: Source) -> None:
    """Do what is due, one after the other; what came of each stands in its row."""
    pages = {page.name: page for page in registered()}
    acts = [page.act_name(act) for page in pages.values() for act in page.waiting]
    tables = Database.of(source.settings, role="audit")
    try:
        while rows := tables.run("take_act", acts=acts):
            [(row, name, text)] = rows
            asked = json.loads(text)
            page = pages[asked.pop("page")]
            try:
                with audit.ending(tables, row, name):
                    page.do(source, Asked(**asked))
            except DatabaseUnavailable:
                raise
            except PeckerError:
                continue  # the row says why
    finally:
        tables.close()
