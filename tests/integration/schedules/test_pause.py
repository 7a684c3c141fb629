"""A paused entry's slots pass: no run, no count, no backlog."""

from __future__ import annotations

import psycopg
import pytest

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.schedules.history.report import Report
from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import (
    after,
    every,
    missed,
    pause,
    pending,
    told,
)


@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
def test_slots_of_a_paused_entry_pass_and_leave_no_backlog(
    start: Starter, dsn: str, delivery: str
) -> None:
    """Resumed, the next slot runs on time and none of those in between."""
    pecker = start(
        {"sweep": every(1.0, delivery=delivery, misfire="catch_up"), "other": 1.0},
        history=60,
    )
    pecker.pass_time(2.5)
    pause(dsn)
    sent = pecker.pass_time(5)
    assert {one.name for one in sent} == {"other"}
    pause(dsn, paused=False)
    again = [one for one in pecker.pass_time(2) if one.name == "sweep"]
    assert [one.header["due_at"] for one in again] == [after(8), after(9)]
    assert (missed(dsn), pending(dsn)) == (0, 0)
    published, paused = Report.PUBLISHED, Report.PAUSED
    assert told(dsn) == [published] * 2 + [paused] * 5 + [published] * 2


def test_slots_that_pass_unseen_during_a_pause_are_not_missed(
    start: Starter, dsn: str
) -> None:
    """Nobody lived for a minute, but nobody wanted them either."""
    pecker = start({"sweep": 1.0})
    pause(dsn)
    pecker.clock.advance_us(60_000_000)
    assert pecker.turn() == []
    assert missed(dsn) == 0


def test_a_paused_claim_without_answer_is_not_sent(start: Starter, dsn: str) -> None:
    """It is found in the table as ours, and passes like the others."""
    pecker = start({"sweep": 10.0})
    pause(dsn)
    repository = pecker.repository
    claim = repository.claim

    def lose(*args: object, **kwargs: object) -> object:
        claim(*args, **kwargs)  # type: ignore[arg-type]
        raise DatabaseUnavailable

    repository.claim = lose  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(10_000_000)
    with pytest.raises(DatabaseUnavailable):
        pecker.service.step()
    repository.claim = claim  # type: ignore[method-assign]
    assert pecker.pass_time(5) == []
    with psycopg.connect(dsn) as connection:
        [(claimed,)] = connection.execute("select epoch > 0 from pecker_tasks")
    assert claimed


def test_a_pause_holds_for_every_replica_and_version_of_the_schedule(
    start: Starter, dsn: str
) -> None:
    """It is in the row, not in somebody's memory."""
    clock = ManualClock()
    one, other = start({"sweep": 1.0}, clock), start({"sweep": 2.0}, clock)
    pause(dsn)
    for _ in range(20):
        clock.advance_us(500_000)
        one.service.step()
        other.service.step()
    assert one.publisher.sent == other.publisher.sent == []
