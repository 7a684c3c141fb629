"""A relay beside a newer one, whose callers write what this version does not know."""

from __future__ import annotations

from typing import Any

import psycopg

from celery_pecker.kernel.database import Database
from celery_pecker.outbox.operations import Which, park, retry
from celery_pecker.outbox.overview import OutboxOverview
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import Rows
from celery_pecker.testing import eventually
from tests.integration.outbox_relay.conftest import Makes
from tests.integration.outbox_relay.rows import column, record

NEWER = """
alter table pecker_outbox drop constraint pecker_outbox_mode_check;
alter table pecker_outbox add column region text default 'eu'
"""
LEFT = "select id from pecker_outbox order by id"


def test_a_mode_of_a_newer_version_is_left_to_it(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str, dsn: str
) -> None:
    """It is neither sent nor dropped: it is counted and shown, and the others go on."""
    outbox.execute(NEWER)
    strange, *_ = record(outbox, 3)
    outbox.execute("update pecker_outbox set mode = 7 where id = %s", [strange])
    made = makes(redis_url)
    eventually(
        lambda: made.step() and column(outbox, LEFT) == [strange], 30.0, "two are sent"
    )
    made.step()
    assert made.relay.tally.sent == 2
    database = Database(dsn, schema="public", timeout=5.0)
    overview = OutboxOverview(database)
    summary = overview.summary()
    assert (summary.depth, summary.tasks[0].waiting) == (1, 1)
    [row] = overview.rows(Which(all_rows=True), limit=10)
    assert (row.id, row.mode, row.state) == (strange, "mode 7", "waiting")
    one = Which(ids=[strange])
    assert park(database, one, "looked at after the deploy") == 1
    assert overview.summary().parked == 1
    assert retry(database, one) == 1
    database.close()
    made.step()
    assert column(outbox, LEFT) == [strange]


def test_workers_leave_a_mode_of_a_newer_version_to_it(
    outbox: psycopg.Connection[Any], dsn: str
) -> None:
    """They neither send a message for it nor run it; the others go on."""
    outbox.execute(NEWER)
    rows = record(outbox, 3)
    outbox.execute("update pecker_outbox set due_at = now(), mode = 7")
    outbox.execute("update pecker_outbox set mode = 1 where id = %s", [rows[1]])
    outbox.execute("update pecker_outbox set mode = 2 where id = %s", [rows[2]])
    database = Database(dsn, schema="public", timeout=5.0)
    runs = Rows(database, Holds(20.0, 60.0))
    assert [one.id for one in runs.claim_pushes()] == [rows[1]]
    known = [("app.work", Options(timeout=None, attempts=20))]
    assert [one.id for one in runs.take(known, 10).begun] == [rows[2]]
    assert (runs.claim_pushes(), runs.take(known, 10).begun) == ([], [])
    database.close()
    assert column(outbox, LEFT) == rows
