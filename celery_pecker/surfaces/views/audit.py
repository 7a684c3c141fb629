"""The view of acts: who did what, when, and by which surface."""

from celery_pecker.kernel import audit
from celery_pecker.kernel.database import Database
from celery_pecker.surfaces.views.model import (
    ID_DIGITS,
    Column,
    Filter,
    Query,
    Shown,
    Table,
    View,
    number,
    of_rows,
)

ROWS = 200


def read(database: Database, query: Query) -> Shown:
    """Return the newest acts that the filters leave."""
    [(now_us,)] = database.run("read_clock", now=None)
    rows = audit.acts(
        database,
        **ACTS.asked(query),
        before=number(query.get("after", ""), ID_DIGITS),
        most=ROWS + 1,
    )
    shown = rows[:ROWS]
    return Shown(
        now_us=now_us,
        summary=rows,
        rows={"audit": shown},
        more=len(rows) > ROWS,
        next=str(shown[-1].id) if shown else "",
    )


ACTS = Table(
    name="audit",
    title="Who did what",
    key="id",
    columns=(
        Column("state", "state", "state"),
        Column("begun_at", "when", "instant"),
        Column("act", "act", "name", chooses="act", notes=("subject",)),
        Column("done_by", "by", chooses="done_by", width="tablet"),
        Column("surface", "surface", width="desk"),
        Column("error", "error", "error", width="tablet"),
    ),
    empty="Nobody has done anything by a command, Flower, the admin or remote control.",
    states={
        "waits": "running",
        "done": "done",
        "undone": "idle",
        "failed": "bad",
        "lapsed": "missed",
        "unknown": "asked",
    },
    means={
        "waits": "It is done in some seconds, unless somebody undoes it",
        "undone": "It was taken back, and not done",
        "lapsed": "Not done: no Flower lived for ten minutes from when it was due",
        "failed": "It was refused, or came to an error",
        "unknown": "It goes on, or its process died: what came of it is not recorded",
    },
    filters=(
        Filter("search", "Part of a subject", "search"),
        Filter("act", "Act", known=of_rows("audit", "act")),
        Filter("done_by", "By", known=of_rows("audit", "done_by")),
    ),
    paged="behind",
    nouns=("act", "acts"),
)
AUDIT = View(
    name="audit",
    title="Audit",
    read=read,
    tables=(ACTS,),
    figures=(),
)
