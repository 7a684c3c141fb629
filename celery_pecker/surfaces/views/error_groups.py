"""The table of errors that are one, of sharded jobs and of an outbox."""

from celery_pecker.surfaces.views.model import Act, Column, Table
from celery_pecker.surfaces.views.phrases import count


def groups_table(title: str, of: str, retry: Act) -> Table:
    """Return the table of an `ErrorGroup` a row, each an error of some shards or tasks.

    ``of``: the head above these; ``retry``: what does its errors again.
    """
    return Table(
        name="groups",
        title=title,
        key="id",
        columns=(
            Column("error", "error", "name", notes=("place", "traceback")),
            Column("count", "errors", "count", alert=True),
            Column("spark", "when", width="tablet"),
            Column("first", "first", "instant", width="desk"),
            Column("last", "last", "instant", width="tablet"),
            Column("many_of", of, width="tablet"),
            Column("key", "key", width="wide"),
            Column("traceback", "traceback", "folded", width="aside"),
        ),
        empty="No error.",
        acts=(retry,),
        nouns=("error", "errors"),
        headed=True,
    )


def note_of(read: int, most: int, what: str) -> str:
    """Return what is to say where not all errors were grouped; empty: all were."""
    return f"Of the first {count(most)} {what}." if read >= most else ""
