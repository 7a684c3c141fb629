"""What a replica does as time goes by: every slot, once, on its grid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
from celery.schedules import crontab

from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.testing.manual import START, ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import due, every, missed


def test_a_per_second_entry_runs_every_second_on_its_grid(start: Starter) -> None:
    """Sixty slots in a minute, none off the grid, one message each."""
    pecker = start({"sweep": 1.0})
    sent = pecker.pass_time(60.01)
    assert [one.header["due_at"] for one in sent] == [
        (START + timedelta(seconds=n)).isoformat(timespec="microseconds")
        for n in range(1, 61)
    ]
    assert len({one.task_id for one in sent}) == len(sent)


def test_two_replicas_share_the_slots_and_send_none_twice(start: Starter) -> None:
    """Whoever comes first has it; the other takes over where the first stops."""
    clock = ManualClock()
    one, other = start({"sweep": 1.0}, clock), start({"sweep": 1.0}, clock)
    for _ in range(30):
        one.service.step()
        other.service.step()
        clock.advance_us(500_000)
    for _ in range(30):
        other.service.step()
        clock.advance_us(500_000)
    slots = due(one) + due(other)
    assert len(slots) == len(set(slots))
    assert len(slots) >= 29  # thirty seconds, the last one still due
    assert due(other)


def test_a_frozen_replica_drops_what_it_holds_instead_of_sending_it_late(
    start: Starter, dsn: str
) -> None:
    """Trust counts from before the claim and ends before the next slot (I2)."""
    pecker = start({"sweep": 1.0})
    claim = pecker.repository.claim

    def freeze(*args: object, **kwargs: object) -> object:
        answer = claim(*args, **kwargs)  # type: ignore[arg-type]
        pecker.clock.advance_us(5_000_000)
        return answer

    pecker.repository.claim = freeze  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_000_000)
    pecker.service.step()
    pecker.repository.claim = claim  # type: ignore[method-assign]
    assert pecker.publisher.sent == []
    pecker.service.step()
    assert missed(dsn) == 5  # its own slot, and four that passed
    assert len(pecker.publisher.sent) == 1


def test_a_timeout_becomes_deadline_and_expiry(start: Starter) -> None:
    """The header carries the deadline; `expires` adds the skew of host clocks."""
    pecker = start({"sweep": every(1.0, timeout=0.8), "plain": 1.0})
    by_name = {one.name: one for one in pecker.pass_time(1.1)}
    deadline = START + timedelta(seconds=1.8)
    sweep = by_name["sweep"]
    assert sweep.header["deadline"] == deadline.isoformat(timespec="microseconds")
    assert sweep.expires == deadline + timedelta(seconds=2)
    assert by_name["plain"].header["deadline"] is None
    assert by_name["plain"].expires is None


def test_a_year_of_working_mornings_takes_a_moment(start: Starter) -> None:
    """Crontabs count by the database's clock, in the app's time zone."""
    weekdays = crontab(minute="30", hour="8", day_of_week="mon-fri")
    pecker = start({"morning": weekdays}, pace=UpkeepPace(round_every=86_400.0))
    year = 0
    for _ in range(365):
        year += len(pecker.pass_time(86_400))
    assert year == sum(
        (START + timedelta(days=n)).astimezone(UTC).weekday() < 5  # Friday
        for n in range(365)
    )
    assert datetime(2027, 1, 1, tzinfo=UTC) == pecker.clock.now()


def test_a_scheduler_slower_than_the_period_runs_late_not_never(
    start: Starter,
) -> None:
    """Overload lowers the rate; it does not stop the entry."""
    pecker = start({"fast": 0.1})
    repository = pecker.repository
    claim = repository.claim

    def slowly(*args: object, **kwargs: object) -> object:
        pecker.clock.advance_us(75_000)
        answer = claim(*args, **kwargs)  # type: ignore[arg-type]
        pecker.clock.advance_us(75_000)
        return answer

    repository.claim = slowly  # type: ignore[method-assign,assignment]
    assert len(pecker.pass_time(5)) >= 20


def test_a_stop_between_two_chunks_claims_no_more(start: Starter, dsn: str) -> None:
    """What is not claimed yet is left to the others."""
    pecker = start({f"sweep {n}": 1.0 for n in range(1_500)})
    publish = pecker.publisher.publish

    def stop(*args: object, **kwargs: object) -> None:
        pecker.service.stop()
        publish(*args, **kwargs)  # type: ignore[arg-type]

    pecker.publisher.publish = stop  # type: ignore[method-assign]
    pecker.clock.advance_us(1_500_000)
    pecker.service.step()
    assert len(pecker.publisher.sent) == 1_000
    with psycopg.connect(dsn) as connection:
        [(claimed,)] = connection.execute(
            "select count(*) from pecker_tasks where epoch > 0"
        )
    assert claimed == 1_000
