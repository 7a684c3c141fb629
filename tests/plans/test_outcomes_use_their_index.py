"""Writing what became of runs costs what is written, and not what there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.sql import render, statements
from tests.plans.test_claims_use_their_index import explain

FILL = b"""
insert into pecker_outcomes (name, published, sent_era, sent_due)
select 'name ' || n, 1, 0, now() from generate_series(1, 50000) as n;
analyze pecker_outcomes
"""
DUE = datetime(2026, 1, 1, tzinfo=UTC)


def counted(name: str, what: str, due: datetime) -> dict[str, object]:
    """Return the parameters of one write: a slot of one entry was sent, or reported."""
    params: dict[str, object] = {
        f"{slot}_{column}": [None]
        for slot in ("good", "sent", "reported", "bad", "unsent")
        for column in ("eras", "dues", "ats", "reports", "errors")
        if slot in {"bad", "unsent"} or column in {"eras", "dues"}
    }
    params |= {"now": None, "host": None, "names": [name]}
    params |= {"counts": ["{1,0,0,0,0,0,0,0,0,0}"]}
    return params | {f"{what}_eras": [0], f"{what}_dues": [due]}


@pytest.fixture
def unreported(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give 50,000 entries, of none of which a worker has reported."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(FILL)
        yield connection


def test_whether_any_worker_reports_is_not_looked_for_in_each_row(
    unreported: psycopg.Connection[Any],
) -> None:
    """Each write of counts asks it, and where none reports there is none to find."""
    params = counted("name 7", "sent", DUE)
    plan = explain(unreported, "count_outcomes", params, "force_custom_plan")
    assert "using pecker_outcomes_reported" in plan, plan
    assert "Seq Scan on pecker_outcomes" not in plan, plan


def test_reports_of_one_day_stay_in_the_page(
    unreported: psycopg.Connection[Any],
) -> None:
    """The index has the day alone: else each report would write to it."""
    text = render(statements()["count_outcomes"], "public").encode()
    with unreported.transaction():
        for second in range(6):
            due = DUE + timedelta(seconds=second)
            for what in ("sent", "reported"):
                unreported.execute(text, counted("fresh", what, due))
        [updates] = unreported.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables"
            " where relname = 'pecker_outcomes'"
        ).fetchall()
    # The first report brings the row into the index; a full page may be left once.
    assert updates[0] == 11
    assert updates[1] >= 9
