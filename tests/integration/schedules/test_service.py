"""What a replica does as time goes by, with real tables and a clock of the test's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Protocol

import psycopg
import pytest
from celery import Celery
from celery.schedules import crontab

from celery_pecker import signals
from celery_pecker.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    PublishUncertain,
)
from celery_pecker.schedules.upkeep import Pace
from celery_pecker.testing.manual import START, ManualClock, ManualPecker


class Starter(Protocol):
    """Makes replicas."""

    def __call__(
        self,
        schedule: dict[str, object],
        clock: ManualClock | None = None,
        **more: object,
    ) -> ManualPecker:
        """Return a replica of an app with that schedule."""
        ...


@pytest.fixture
def start(dsn: str) -> Iterator[Starter]:
    """Give a way to start replicas on one database."""
    with ExitStack() as stack:

        def make(
            schedule: dict[str, object],
            clock: ManualClock | None = None,
            **more: object,
        ) -> ManualPecker:
            app = Celery("test", set_as_current=False)
            app.conf.beat_schedule = {
                name: given if isinstance(given, dict) else every(given)
                for name, given in schedule.items()
            }
            return stack.enter_context(
                ManualPecker(app, dsn=dsn, clock=clock, **more)  # type: ignore[arg-type]
            )

        yield make


def every(schedule: object, **pecker: object) -> dict[str, object]:
    """Return an entry."""
    return {"task": "t", "schedule": schedule, "pecker": pecker or None}


def missed(dsn: str, name: str = "sweep") -> int:
    """Return what the table counts as missed."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute(
            "select missed from pecker_tasks where name = %s", [name]
        )
    return int(count)


def due(pecker: ManualPecker) -> list[str]:
    """Return the slots of everything sent."""
    return [str(one.header["due_at"]) for one in pecker.publisher.sent]


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
    claim = pecker.service._repository.claim

    def freeze(*args: object, **kwargs: object) -> object:
        answer = claim(*args, **kwargs)  # type: ignore[arg-type]
        pecker.clock.advance_us(5_000_000)
        return answer

    pecker.service._repository.claim = freeze  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_000_000)
    pecker.service.step()
    pecker.service._repository.claim = claim  # type: ignore[method-assign]
    assert pecker.publisher.sent == []
    pecker.service.step()
    assert missed(dsn) == 5  # its own slot, and four that passed
    assert len(pecker.publisher.sent) == 1


def test_a_broker_that_is_away_costs_a_counted_miss_and_no_pile_up(
    start: Starter, dsn: str
) -> None:
    """The slot in hand is tried until the next is due; then one comes, not ten."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.pass_time(1.5)
    assert pecker.publisher.sent == []
    pecker.publisher.unreachable = True
    pecker.pass_time(8.2)
    pecker.publisher.failing, pecker.publisher.unreachable = None, False
    sent = pecker.pass_time(0.2)
    assert len(sent) == 1
    assert missed(dsn) + len(pecker.publisher.sent) == 9  # slots due


def test_a_replica_that_cannot_reach_the_broker_leaves_the_slots_to_others(
    start: Starter, dsn: str
) -> None:
    """It was the winner; from the next slot on it is not, and none is missed."""
    clock = ManualClock()
    cut, whole = start({"sweep": 1.0}, clock), start({"sweep": 1.0}, clock)
    clock.advance_us(1_000_000)
    cut.service.step()
    cut.publisher.unreachable = True
    for _ in range(42):
        clock.advance_us(100_000)
        cut.service.step()
        whole.service.step()
    assert len(cut.publisher.sent) == 1
    assert len(whole.publisher.sent) == 4
    assert missed(dsn) == 0


def test_a_slot_is_sent_late_rather_than_never_while_its_time_lasts(
    start: Starter, dsn: str
) -> None:
    """A broker away for half a second costs nothing."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.pass_time(1.3)
    pecker.publisher.failing = None
    [late] = pecker.pass_time(0.5)
    assert late.header["due_at"] == due(pecker)[0]
    assert missed(dsn) == 0


def test_an_uncertain_batch_is_tried_again_only_under_its_token(
    start: Starter, dsn: str
) -> None:
    """With the token a retry is exact; without it, it might double: never twice."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = PublishUncertain(retry_safe=True)
    pecker.pass_time(1.2)
    pecker.publisher.failing = None
    assert len(pecker.pass_time(0.5)) == 1
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    pecker.pass_time(0.5)
    pecker.publisher.failing = None
    pecker.pass_time(0.5)
    assert len(pecker.publisher.sent) == 1
    assert missed(dsn) == 1


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


def pending(dsn: str) -> int:
    """Return how many slots are claimed and not confirmed."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("select count(*) from pecker_pending")
    return int(count)


def test_a_failure_in_the_middle_leaves_no_entry_asleep(
    start: Starter, dsn: str
) -> None:
    """Whatever is raised between claim and publish, the entry wakes again."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = ZeroDivisionError()  # type: ignore[assignment]
    pecker.clock.advance_us(1_000_000)
    with pytest.raises(ZeroDivisionError):
        pecker.service.step()
    pecker.publisher.failing = None
    assert len(pecker.pass_time(3.5)) == 3
    assert missed(dsn) == 1


def test_a_failure_in_the_claim_leaves_no_entry_asleep(start: Starter) -> None:
    """Off the agenda and not planned anew, it would stand still for ever."""
    pecker = start({"sweep": 1.0})
    repository = pecker.service._repository
    claim = repository.claim

    def fail(*_args: object, **_kwargs: object) -> object:
        raise ZeroDivisionError

    repository.claim = fail  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_010_000)
    with pytest.raises(ZeroDivisionError):
        pecker.service.step()
    repository.claim = claim  # type: ignore[method-assign]
    assert len(pecker.pass_time(3)) == 4


def test_at_least_once_is_confirmed_when_the_broker_has_it(
    start: Starter, dsn: str
) -> None:
    """Nothing stays pending, nothing is sent again."""
    pecker = start({"report": every(60.0)})
    assert len(pecker.pass_time(100)) == 1
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select * from pecker_pending").fetchall() == []


@pytest.mark.parametrize(
    ("policy", "sent", "counted"),
    [
        ({}, 1, 9),
        ({"misfire": "skip", "grace": 0.1}, 0, 10),
        ({"misfire": "catch_up", "catch_up": 4}, 4, 6),
    ],
)
def test_a_pause_of_ten_slots_follows_the_misfire_policy(
    start: Starter, dsn: str, policy: dict[str, object], sent: int, counted: int
) -> None:
    """Coalesce runs one, skip none, catch up a bounded number; the rest is counted."""
    pecker = start({"sweep": every(10.0, **policy)})
    pecker.clock.advance_us(105_000_000)
    assert len(pecker.turn()) == sent
    pecker.turn()
    assert missed(dsn) == counted


def test_a_crontab_missed_for_days_runs_once(start: Starter, dsn: str) -> None:
    """As with beat; and the slot is the latest, not the first."""
    pace = Pace(round_every=3600.0)
    pecker = start({"nightly": crontab(minute="0", hour="2")}, pace=pace)
    pecker.clock.advance_us(int(5.5 * 86_400 * 1e6))
    [run] = pecker.turn()
    assert run.header["due_at"] == "2026-01-06T02:00:00.000000+00:00"
    assert missed(dsn, "nightly") == 5  # nights from the 1st to the 5th
    assert pecker.pass_time(86_400)[0].header["due_at"] == (
        "2026-01-07T02:00:00.000000+00:00"
    )


@pytest.mark.parametrize("seconds", [-600.0, 600.0, -3.0, 3.0])
def test_a_stepped_clock_neither_stops_nor_doubles(
    start: Starter, seconds: float
) -> None:
    """The pace is kept in real time; slots of the new era are new slots (I1)."""
    told: list[float] = []

    def listen(event: signals.ClockStepped) -> None:
        told.append(event.seconds)

    signals.clock_stepped.connect(listen)
    try:
        pecker = start({"sweep": 1.0})
        pecker.pass_time(10.2)
        before = len(pecker.publisher.sent)
        pecker.clock.step(seconds)
        pecker.pass_time(20)
    finally:
        signals.clock_stepped.disconnect(listen)
    after = pecker.publisher.sent[before:]
    within_slack = 3 if seconds == -3.0 else 0  # nobody claims meanwhile
    assert 19 - within_slack <= len(after) <= 21  # twenty seconds
    ids = [one.task_id for one in pecker.publisher.sent]
    assert len(ids) == len(set(ids))
    assert told[0] == pytest.approx(seconds, abs=0.01)


def test_a_gate_holds_an_entry_and_its_slot_follows_the_policy(start: Starter) -> None:
    """Held before the claim: nothing is lost, it coalesces when let go."""

    class Shut:
        shut = True

        def held(self, names: Sequence[str]) -> Collection[str]:
            return [name for name in names if name == "heavy" and self.shut]

    gate = Shut()
    pecker = start({"heavy": 1.0, "light": 1.0}, gate=gate)
    assert {one.name for one in pecker.pass_time(5.05)} == {"light"}
    gate.shut = False
    sent = pecker.pass_time(0.2)
    assert [one.name for one in sent] == ["heavy"]
    assert sent[0].header["due_at"] == (START + timedelta(seconds=5)).isoformat(
        timespec="microseconds"
    )


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


def names(dsn: str) -> set[str]:
    """Return the entries in the table."""
    with psycopg.connect(dsn) as connection:
        return {name for (name,) in connection.execute("select name from pecker_tasks")}


def test_a_claim_whose_answer_was_lost_is_found_in_the_table(
    start: Starter, dsn: str
) -> None:
    """The server did it, the reply did not come: the holder in the row tells."""
    pecker = start({"sweep": 1.0})
    claim = pecker.service._repository.claim

    def lose(*args: object, **kwargs: object) -> object:
        claim(*args, **kwargs)  # type: ignore[arg-type]
        raise DatabaseUnavailable

    pecker.service._repository.claim = lose  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_000_000)
    with pytest.raises(DatabaseUnavailable):
        pecker.service.step()
    pecker.service._repository.claim = claim  # type: ignore[method-assign]
    pecker.clock.advance_us(100_000)
    [found] = pecker.turn()
    assert found.header["due_at"] == (START + timedelta(seconds=1)).isoformat(
        timespec="microseconds"
    )
    assert missed(dsn) == 0


def test_a_year_of_working_mornings_takes_a_moment(start: Starter) -> None:
    """Crontabs count by the database's clock, in the app's time zone."""
    weekdays = crontab(minute="30", hour="8", day_of_week="mon-fri")
    pecker = start({"morning": weekdays}, pace=Pace(round_every=86_400.0))
    year = 0
    for _ in range(365):
        year += len(pecker.pass_time(86_400))
    assert year == sum(
        (START + timedelta(days=n)).astimezone(UTC).weekday() < 5  # Friday
        for n in range(365)
    )
    assert datetime(2027, 1, 1, tzinfo=UTC) == pecker.clock.now()


def test_a_claim_found_without_answer_is_found_once(start: Starter) -> None:
    """Published when it was found; a later claim that fails must not find it new."""
    pecker = start({"hourly": crontab(minute="0")})
    repository = pecker.service._repository
    claim = repository.claim

    def lose_the_answer(*args: object, **kwargs: object) -> object:
        claim(*args, **kwargs)  # type: ignore[arg-type]
        raise DatabaseUnavailable

    def never_arrive(*_args: object, **_kwargs: object) -> object:
        raise DatabaseUnavailable

    for broken in (lose_the_answer, never_arrive):
        pecker.clock.advance_us(3_602_000_000)
        repository.claim = broken  # type: ignore[method-assign,assignment]
        with pytest.raises(DatabaseUnavailable):
            pecker.service.step()
        repository.claim = claim  # type: ignore[method-assign]
        pecker.turn()
    ids = [one.task_id for one in pecker.publisher.sent]
    assert len(ids) == 2
    assert len(set(ids)) == 2


def test_an_odd_row_does_not_stop_its_neighbours(start: Starter, dsn: str) -> None:
    """A row from 1970 counts what fits; no row can say "never" by an infinite date."""
    pecker = start({"odd": 0.5, "good": 1.0})
    with psycopg.connect(dsn, autocommit=True) as connection:
        old = "update pecker_tasks set executed_at = '1970-01-01' where name = 'odd'"
        connection.execute(old)
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update pecker_tasks set executed_at = 'infinity'")
    assert {one.name for one in pecker.pass_time(2.1)} == {"odd", "good"}


def test_a_fresh_replica_does_not_repeat_a_daily_job_after_a_small_step_back(
    start: Starter,
) -> None:
    """Its row lies ahead of the clock by less than its period: it waits."""
    clock = ManualClock()
    schedule = {"noon": crontab(minute="0", hour="12")}
    hourly = Pace(round_every=3600.0)
    old = start(dict(schedule), clock, pace=hourly)
    assert len(old.pass_time(12 * 3600 + 10)) == 1
    clock.step(-30)
    fresh = start(dict(schedule), clock, pace=hourly)
    assert fresh.pass_time(2 * 3600) == []


def test_a_scheduler_slower_than_the_period_runs_late_not_never(
    start: Starter,
) -> None:
    """Overload lowers the rate; it does not stop the entry."""
    pecker = start({"fast": 0.1})
    repository = pecker.service._repository
    claim = repository.claim

    def slowly(*args: object, **kwargs: object) -> object:
        pecker.clock.advance_us(75_000)
        answer = claim(*args, **kwargs)  # type: ignore[arg-type]
        pecker.clock.advance_us(75_000)
        return answer

    repository.claim = slowly  # type: ignore[method-assign,assignment]
    assert len(pecker.pass_time(5)) >= 20


def test_a_slot_in_hand_is_tried_again_soon(start: Starter) -> None:
    """A broker that was away for a moment costs a tenth of a second, not the slot."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.clock.advance_us(1_000_000)
    assert pecker.service.step() <= 0.1


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


def test_a_gate_that_fails_lets_the_entries_pass(start: Starter) -> None:
    """Whoever writes a gate must not be able to stop the schedule by a mistake."""

    class Broken:
        def held(self, names: Sequence[str]) -> Collection[str]:
            raise RuntimeError(names)

    assert len(start({"sweep": 1.0}, gate=Broken()).pass_time(3.1)) == 3


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
