"""At least once: a slot stays pending until the broker has it, or its time is over."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from celery_pecker.kernel.errors import PublishUncertain
from celery_pecker.testing.manual import START, ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import every, missed, pending


def test_at_least_once_is_sent_again_by_another_replica(start: Starter) -> None:
    """Claimed, not confirmed, its claimer gone: the same task id, a higher epoch."""
    schedule = {"report": every(60.0)}
    clock = ManualClock()
    dies, lives = start(dict(schedule), clock), start(dict(schedule), clock)
    dies.publisher.failing = PublishUncertain(retry_safe=False)
    clock.advance_us(60_000_000)
    dies.service.step()
    assert dies.publisher.sent == []
    sent = lives.pass_time(30)
    [again] = sent
    assert again.header["due_at"] == (START + timedelta(seconds=60)).isoformat(
        timespec="microseconds"
    )
    assert lives.pass_time(25) == []


def test_a_slot_that_is_sent_again_is_above_all_of_its_entry(
    start: Starter, dsn: str
) -> None:
    """Also when the clock of the database stepped back after its claim (I3)."""
    pecker = start({"report": every(600.0)})
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    pecker.pass_time(601)
    pecker.publisher.failing = None
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "update pecker_tasks set epoch = epoch + 3600000000 returning epoch"
        ).fetchone()
    assert row is not None
    [again] = pecker.pass_time(40)
    assert int(str(again.header["epoch"])) > row[0]


def test_an_at_least_once_slot_outlives_an_outage_longer_than_its_period(
    start: Starter, dsn: str
) -> None:
    """It stays pending until the broker has it: not dropped, not tried for ever."""
    pecker = start({"report": every(60.0)})
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    pecker.pass_time(150)
    pecker.publisher.failing = None
    sent = pecker.pass_time(80)
    slots = {str(one.header["due_at"]) for one in sent}
    wanted = {START + timedelta(seconds=n) for n in (60, 120, 180)}
    assert slots == {one.isoformat(timespec="microseconds") for one in wanted}
    assert missed(dsn, "report") == 0
    assert pending(dsn) == 0


def test_a_slot_that_is_never_taken_is_given_up_and_counted(
    start: Starter, dsn: str
) -> None:
    """Retries are bounded; what ends them is counted and leaves nothing behind (I9)."""
    pecker = start({"report": every(600.0)})
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    pecker.pass_time(601)
    with psycopg.connect(dsn) as connection:
        connection.execute("update pecker_pending set attempt = 100")
    pecker.pass_time(40)
    assert missed(dsn, "report") == 1
    assert pending(dsn) == 0


def test_at_least_once_is_confirmed_when_the_broker_has_it(
    start: Starter, dsn: str
) -> None:
    """Nothing stays pending, nothing is sent again."""
    pecker = start({"report": every(60.0)})
    assert len(pecker.pass_time(100)) == 1
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select * from pecker_pending").fetchall() == []


def test_slots_are_confirmed_chunk_by_chunk(start: Starter, dsn: str) -> None:
    """Else others send them again while the later chunks are still on their way."""
    pecker = start({f"report {n}": every(60.0) for n in range(1_500)})
    publish = pecker.publisher.publish
    waiting: list[int] = []

    def look(*args: object, **kwargs: object) -> None:
        waiting.append(pending(dsn))
        publish(*args, **kwargs)  # type: ignore[arg-type]

    pecker.publisher.publish = look  # type: ignore[method-assign]
    pecker.clock.advance_us(60_500_000)
    pecker.turn()
    assert waiting == [1_000, 500]
