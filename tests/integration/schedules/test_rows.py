"""Rows come, go and may be odd, without harm to their neighbours."""

from __future__ import annotations

import psycopg
import pytest

from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import names


def test_an_entry_removed_from_the_table_comes_back(start: Starter, dsn: str) -> None:
    """A row deleted by hand is a new entry: one period later it runs again."""
    pecker = start({"sweep": 1.0})
    pecker.pass_time(3)
    with psycopg.connect(dsn) as connection:
        connection.execute("delete from pecker_tasks")
    sent = pecker.pass_time(10)
    assert len(sent) >= 3  # noticed within a round of five seconds


def test_undeclared_rows_go_after_a_day(start: Starter, dsn: str) -> None:
    """What no living code declares is removed, what it declares stays."""
    clock = ManualClock()
    old = start({"sweep": 60.0, "old": 60.0}, clock)
    old.pass_time(100)
    new = start({"sweep": 60.0}, clock)
    new.pass_time(3600)
    assert names(dsn) == {"sweep", "old"}
    clock.advance_us(86_400 * 1_000_000)
    new.pass_time(300)
    assert names(dsn) == {"sweep"}


def test_an_odd_row_does_not_stop_its_neighbours(start: Starter, dsn: str) -> None:
    """A row from 1970 counts what fits; no row can say "never" by an infinite date."""
    pecker = start({"odd": 0.5, "good": 1.0})
    with psycopg.connect(dsn, autocommit=True) as connection:
        old = "update pecker_tasks set executed_at = '1970-01-01' where name = 'odd'"
        connection.execute(old)
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update pecker_tasks set executed_at = 'infinity'")
    assert {one.name for one in pecker.pass_time(2.1)} == {"odd", "good"}
