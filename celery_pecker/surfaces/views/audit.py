"""The view of acts: who did what, when, and by which surface."""

from celery_pecker.kernel import audit
from celery_pecker.kernel.database import Database
from celery_pecker.surfaces.views.model import (
    Column,
    Filter,
    Query,
    Shown,
    Table,
    View,
)

ROWS = 200


def read(database: Database, query: Query) -> Shown:
    """Return the newest acts that the filters leave."""
    [(now_us,)] = database.run("read_clock", now=None)
    rows = audit.acts(
        database,
        search=query.get("search", "").strip(),
        act=query.get("act", ""),
        by=query.get("done_by", ""),
        most=ROWS,
    )
    return Shown(now_us=now_us, summary=rows, rows={"audit": rows})


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
        Filter("act", "act"),
        Filter("done_by", "by"),
    ),
    nouns=("act", "acts"),
)
AUDIT = View(
    name="audit",
    title="Audit",
    read=read,
    tables=(ACTS,),
    figures=(),
)
