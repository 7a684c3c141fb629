"""What callers and relays would have left in an outbox."""

from __future__ import annotations

import psycopg
from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.outbox import Outbox, operations
from celery_pecker.outbox.operations import Which

ANYBODY = {"FLOWER_UNAUTHENTICATED_API": "true"}
"""On such a Flower anybody may act."""
STRANGE = "proj.<b onclick='window.hacked=1'>bold</b>"
APP = """
from celery_pecker.outbox import Outbox
outbox = Outbox(app)
"""


def write_outbox(dsn: str, *, due: int = 3, parked: int = 1, later: int = 1) -> None:
    """Leave just these messages of three tasks; nobody delivers them."""
    with psycopg.connect(dsn) as connection:
        connection.execute("truncate pecker_outbox")
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = dsn
    outbox = Outbox(app)
    for number in range(due):
        outbox.send(app.signature("proj.bill", args=[number]))
    for number in range(later):
        outbox.send(app.signature("proj.remind", args=[number]), countdown=3600)
    for number in range(parked):
        outbox.send(app.signature(STRANGE, args=[number]))
    outbox.close()
    database = Database.of(outbox.settings, role="test")
    operations.park(database, Which(tasks=[STRANGE]), "the queue <i>eu</i> is unknown")
    database.close()
    app.close()


def states(dsn: str) -> dict[str, int]:
    """Return how many messages are left of each task."""
    with psycopg.connect(dsn) as connection:
        return dict(
            connection.execute(
                "select task, count(*)::int from pecker_outbox group by 1"
            ).fetchall()
        )


def ids(dsn: str) -> set[str]:
    """Return the ids of the messages that there are."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select id::text from pecker_outbox").fetchall()
        return {id_ for (id_,) in found}
