"""Writing what became of runs costs what is written, and not what there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.plans.test_claims_use_their_index import explain

FILL = b"""
insert into pecker_outcomes (name, published, sent_era, sent_due)
select 'name ' || n, 1, 0, now() from generate_series(1, 50000) as n;
analyze pecker_outcomes
"""
DUE = datetime(2026, 1, 1, tzinfo=UTC)


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
    empty = {
        f"{slot}_{column}": [None]
        for slot in ("good", "reported", "bad", "unsent")
        for column in ("eras", "dues", "ats", "reports", "errors")
        if slot in {"bad", "unsent"} or column in {"eras", "dues"}
    }
    params: dict[str, object] = {
        "now": None,
        "host": None,
        "names": ["name 7"],
        "counts": ["{1,0,0,0,0,0,0,0,0,0}"],
        "sent_eras": [0],
        "sent_dues": [DUE],
        **empty,
    }
    plan = explain(unreported, "count_outcomes", params, "force_custom_plan")
    assert "using pecker_outcomes_reported" in plan, plan
    assert "Seq Scan on pecker_outcomes" not in plan, plan
