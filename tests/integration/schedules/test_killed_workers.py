"""A scheduler sweeps up after workers that were killed."""

from __future__ import annotations

import uuid
from datetime import timedelta

import psycopg

from celery_pecker.schedules.history.life import SILENT
from celery_pecker.schedules.history.report import Report
from celery_pecker.testing.manual import START, ManualPecker
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import told

SECOND = 1_000_000
DUE = START - timedelta(seconds=100)
SILENT_ONE, LIVING = (uuid.UUID(int=number) for number in (1, 2))


def show_life(dsn: str, holder: uuid.UUID, pecker: ManualPecker) -> None:
    """Renew the row of a worker with a run in hand."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_lives"
            " (holder, host, seen_at, names, due_us, eras, epochs)"
            " values (%s, 'w', %s, array['sweep'], array[%s], array[0], array[1])"
            " on conflict (holder) do update set seen_at = excluded.seen_at",
            [holder, pecker.clock.now(), int(DUE.timestamp()) * SECOND],
        )


def lives(dsn: str) -> set[uuid.UUID]:
    """Return whose runs are in hand."""
    with psycopg.connect(dsn) as connection:
        return {
            holder
            for (holder,) in connection.execute("select holder from pecker_lives")
        }


def test_who_is_silent_for_a_minute_has_lost_its_runs(start: Starter, dsn: str) -> None:
    """Not sooner; and who renews its row keeps it."""
    pecker = start({"sweep": 3600.0})
    show_life(dsn, SILENT_ONE, pecker)
    for _ in range(int(SILENT // 10)):
        show_life(dsn, LIVING, pecker)
        pecker.pass_time(10)
        assert lives(dsn) == {SILENT_ONE, LIVING}
    for _ in range(6):
        show_life(dsn, LIVING, pecker)
        pecker.pass_time(10)
    assert lives(dsn) == {LIVING}
    assert told(dsn) == [Report.LOST]


def test_a_scheduler_that_was_frozen_calls_nobody_lost(
    start: Starter, dsn: str
) -> None:
    """What it did not see for an hour may have been as frozen as itself."""
    pecker = start({"sweep": 3600.0})
    show_life(dsn, SILENT_ONE, pecker)
    pecker.pass_time(30)
    pecker.clock.advance_us(3600 * SECOND)
    pecker.pass_time(30)
    assert lives(dsn) == {SILENT_ONE}
