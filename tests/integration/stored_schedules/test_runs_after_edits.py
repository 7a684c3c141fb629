"""A slot that is due while somebody edits: it runs once, by the new definition."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.stored import follower
from tests.integration.stored_schedules.conftest import Desk

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    "new",
    [{"every": 3600}, {"cron": "0 4 1 1 *"}, {"crontab": "0 4 1 1 *"}],
    ids=["grid", "cron", "crontab"],
)
def test_it_runs_once_on_replicas_that_knew_the_old_one(
    desk: Desk, new: dict[str, Any]
) -> None:
    """Nobody had claimed it; both replicas have read the definition before."""
    desk.set(schedule=60, args=["old"])
    last = desk.won("report", 90 * SECOND)
    clock = ManualClock(last + 30 * SECOND)
    with (
        follower(desk.dsn, clock) as (one, built),
        follower(desk.dsn, clock) as (
            other,
            _,
        ),
    ):
        replicas = (one, other)
        for replica in replicas:
            replica.pass_time(0)
        row = desk.set(schedule=new, args=["new"])
        clock.step((row.changed_at - clock.now()).total_seconds())
        for _ in range(10):
            for replica in replicas:
                replica.turn()
            clock.advance_us(500_000)
        sent = [run for replica in replicas for run in replica.publisher.sent]
        assert [run.header["due_at"] for run in sent] == [
            (last + 60 * SECOND).isoformat(),
        ]
        assert built.built["report"].args == ("new",)


def test_it_does_not_run_where_it_was_removed(desk: Desk) -> None:
    """Nor when the name comes back."""
    desk.set(schedule=60)
    last = desk.won("report", 90 * SECOND)
    clock = ManualClock(last + 30 * SECOND)
    with follower(desk.dsn, clock) as (replica, _):
        replica.pass_time(0)
        desk.schedules.remove("report")
        row = desk.set(schedule=60)
        clock.step((row.changed_at - clock.now()).total_seconds())
        for _ in range(10):
            replica.turn()
            clock.advance_us(500_000)
        assert not replica.publisher.sent
        clock.advance_us(60_000_000)
        replica.turn()
        assert [run.header["due_at"] for run in replica.publisher.sent] == [
            (row.changed_at + 60 * SECOND).isoformat(),
        ]
