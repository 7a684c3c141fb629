"""PostgreSQL's clock is set back by an hour: nobody waits for an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from celery_pecker.kernel.settings import Settings
from celery_sharding.ledger import Ledger
from celery_sharding.model import Placement
from tests.database_clock import DatabaseClock
from tests.integration.sharding.conftest import LEASE, Planner, Time
from tests.integration.sharding.shift import closing, run_job, taken

HOUR = timedelta(hours=1)
RESEND = 10.0


class Clock:
    """The database's clock."""

    def __init__(self, clock: DatabaseClock) -> None:
        self.dsn = clock.dsn
        self._clock = clock
        self._ahead = timedelta()

    def step(self, by: timedelta) -> None:
        """It is so much later, or earlier, from the next statement on."""
        self._ahead += by
        self._clock.step(self._ahead)

    def go(self, seconds: float) -> None:
        """So much time passes."""
        self.step(timedelta(seconds=seconds))


@pytest.fixture
def clock(dsn: str) -> Iterator[Clock]:
    """Give the clock of this test's database."""
    with DatabaseClock(dsn) as shifted:
        yield Clock(shifted)


@pytest.fixture
def settings(clock: Clock) -> Settings:
    """Give settings by which all ledgers go by that clock."""
    return Settings(dsn=clock.dsn, app="test")


@pytest.fixture(autouse=True)
def by_the_database(time: Time) -> None:
    """Nobody tells the ledgers what time it is."""
    time.at = None


def set_back(ledger: Ledger, clock: Clock) -> None:
    """A worker is heard of, the clock is set back, and another beat of it."""
    ledger.upkeep.record_worker("w", 1)
    clock.step(-HOUR)
    assert 3_590 < ledger.upkeep.follow_clock() <= 3_600
    assert ledger.upkeep.follow_clock() == 0.0
    ledger.upkeep.record_worker("w", 1)


def test_a_dead_holder_is_waited_for_no_longer_than_its_lease(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """Its shards go on elsewhere."""
    ready = planned(((5,),))
    turn = taken(ledger, ready.job)
    assert ledger.shards.claim(turn.hold, layer=0, most=1)
    set_back(ledger, clock)
    assert ledger.tickets.end_expired() == []
    clock.go(LEASE)
    assert ledger.tickets.end_expired() == [ready.job]


def test_a_living_holder_keeps_its_ticket(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """What it wrote since by the new clock is left as it is."""
    ready = planned(((5,),))
    turn = taken(ledger, ready.job)
    (shard,) = ledger.shards.claim(turn.hold, layer=0, most=1)
    ledger.upkeep.record_worker("w", 1)
    clock.step(-HOUR)
    assert ledger.tickets.renew(turn.hold, LEASE).held
    ledger.upkeep.follow_clock()
    clock.go(LEASE - 5)
    assert ledger.tickets.end_expired() == []
    assert ledger.shards.write(turn.hold, [closing(shard)], lease=LEASE).held


def test_messages_that_were_lost_are_sent_again(
    ledger: Ledger, planned: Planner, submitted: Callable[..., str], clock: Clock
) -> None:
    """Tickets, and the jobs' own."""
    ready, other = planned(((5,),)), submitted()
    ledger.submissions.sent(other)
    assert ledger.tickets.to_publish(ready.job, slots=None, resend=RESEND)
    set_back(ledger, clock)
    clock.go(RESEND)
    assert ledger.tickets.to_publish(ready.job, slots=None, resend=RESEND)
    assert len(ledger.upkeep.due(resend=RESEND).messages) == 1


def test_post_of_a_dead_process_is_run_by_another(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """Once its lease is over."""
    ready = planned()
    run_job(ledger, ready.job)
    assert ledger.outcomes.begin_post(ready.task_id, "dead:1:a", LEASE) is not None
    set_back(ledger, clock)
    assert ledger.outcomes.begin_post(ready.task_id, "b:1:a", LEASE) is None
    clock.go(LEASE)
    assert ledger.outcomes.begin_post(ready.task_id, "b:1:a", LEASE) is not None


def test_a_deadline_strikes_when_it_would_have(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """By how long ago the job was submitted."""
    ready = planned(deadline=30)
    set_back(ledger, clock)
    assert ledger.upkeep.deadlines() == []
    clock.go(31)
    assert [job for job, _, _ in ledger.upkeep.deadlines()] == [ready.job]


def test_workers_that_are_gone_are_not_taken_for_living_ones(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """What belongs to them is an orphan after a while, as ever."""
    ready = planned(((5,),), placement=Placement.EVEN)
    ledger.placements.deal(ready.job, [(0, "gone")])
    ledger.upkeep.record_worker("gone", 1, "gone.dq")
    set_back(ledger, clock)
    for _ in range(4):
        clock.go(5.0)
        ledger.upkeep.record_worker("w", 1, "w.dq")
    assert [one.hostname for one in ledger.placements.serving(None)] == ["w"]
    assert ledger.placements.orphans() == {ready.job: [0]}


def test_a_clock_that_goes_on_changes_nothing(
    ledger: Ledger, planned: Planner, clock: Clock
) -> None:
    """Nor does one that is a little off."""
    planned()
    ledger.upkeep.record_worker("w", 1)
    clock.go(-30)
    assert ledger.upkeep.follow_clock() == 0.0
    clock.step(HOUR)
    assert ledger.upkeep.follow_clock() == 0.0
