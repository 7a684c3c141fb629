"""The exchange by its turns: a store and a meter that do as they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from celery_pecker.testing import eventually
from tests.unit.throttle.doubles import Clock, Counting, Listener, Meter, seen
from throttle.errors import StoreUnavailable
from throttle.exchange import Exchanger
from throttle.model import STALE, Amount, ExchangeAnswer, Holding, Reading, Report
from throttle.settings import Settings
from throttle.store import wire

SETTINGS = Settings.read(
    {"throttle_redis_url": "redis://nowhere", "throttle_limits": {"main": 100}}
)


class Stage:
    """An exchange whose turns are called one by one."""

    def __init__(
        self, holdings: Callable[[], Mapping[str, Holding]] | None = None
    ) -> None:
        self.clock = Clock()
        self.meter = Meter()
        self.store = Counting(self.clock)
        self.accounts = Listener()
        self.exchanger = Exchanger(
            SETTINGS,
            self.store.store,
            self.meter.read,
            self.accounts,
            name="here",
            holdings=holdings,
            clock=self.clock,
        )

    def turn(self, operations: float = 0, database: str = "main") -> None:
        """One turn, 100 ms of it, in which so much was counted."""
        if operations:
            self.meter.count(operations, database)
        self.exchanger.turn()
        self.clock.now += 0.1


@pytest.fixture
def stage() -> Stage:
    """Give an exchange whose turns are called one by one."""
    return Stage()


def test_what_was_counted_is_told_and_what_is_known_is_kept(stage: Stage) -> None:
    """Each report asks about the databases that have a limit, counted or not."""
    stage.turn(7)
    stage.turn(3, database="unlimited")
    first, second = stage.store.reports
    assert list(first.databases) == ["main"]
    assert set(second.databases) == {"main", "unlimited"}
    assert stage.store.samples == [("main", 7, 0), ("unlimited", 3, 0)]
    snapshot = stage.exchanger.snapshot
    assert snapshot.seen("main") == seen(50)
    assert not snapshot.away
    assert [reading.databases for reading in stage.accounts.observed] == [
        {"main": Amount(7)},
        {"unlimited": Amount(3)},
    ]


def test_an_answer_is_as_old_as_its_question(stage: Stage) -> None:
    """A store that answers late does not make its answer young."""
    asked = stage.clock.now
    exchange = stage.store.exchange

    def slow(report: Report) -> ExchangeAnswer:
        answer = exchange(report)
        stage.clock.now += 0.25
        return answer

    stage.store.exchange = slow  # type: ignore[method-assign]
    stage.exchanger.turn()
    assert stage.exchanger.snapshot.at == asked
    assert stage.accounts.answers == [(stage.exchanger.snapshot.answer, asked)]
    assert stage.exchanger.snapshot.fresh(asked + STALE)
    assert not stage.exchanger.snapshot.fresh(asked + STALE + 0.01)


def test_a_lost_answer_counts_nothing_twice(stage: Stage) -> None:
    """The samples come again under their number; what came since, under the next."""
    stage.store.answer_lost = True
    stage.turn(5)
    stage.clock.now += 0.2
    stage.turn(6)
    stage.store.answer_lost = False
    stage.clock.now += 0.2
    stage.turn(7)
    stage.turn()
    assert [report.number for report in stage.store.reports] == [1, 1, 1, 2]
    answered = [report.answered for report in stage.store.reports]
    assert answered == [True, False, False, True]
    assert [operations for _, operations, _ in stage.store.samples] == [5, 6, 7]


def test_samples_keep_their_age_while_the_store_is_away(stage: Stage) -> None:
    """What was counted then belongs into the windows of then."""
    stage.store.away = True
    for operations in (1, 2, 3):
        stage.turn(operations)
    stage.store.away = False
    stage.clock.now += 0.2
    stage.turn()
    stage.turn()
    ages = {operations: age for _, operations, age in stage.store.samples}
    assert ages == {
        1: pytest.approx(0.5),
        2: pytest.approx(0.5),
        3: pytest.approx(0.4),
    }


def test_a_late_turn_says_how_long_it_counted(stage: Stage) -> None:
    """What a thread that was late reads at once was no burst."""
    stage.turn()
    stage.clock.now += 0.6
    stage.turn(70)
    assert stage.store.spans == [pytest.approx(0.7)]


def test_what_no_report_may_cover_is_told_in_several(stage: Stage) -> None:
    """After ten seconds of frost, of more databases than one report bears."""
    stage.turn()
    stage.clock.now += 9.8
    stage.meter.next = Reading({f"db {n}": Amount(1) for n in range(127)})
    for _ in range(6):
        stage.turn()
    for report in stage.store.reports:
        wire.report_in(wire.report_out(report))
    told = sorted(database for database, _, _ in stage.store.samples)
    assert told == sorted(f"db {n}" for n in range(127))
    assert stage.exchanger.dropped == 0


def test_what_is_older_than_the_windows_is_dropped_and_counted(stage: Stage) -> None:
    """An outage of an hour takes the memory of ten seconds."""
    stage.store.away = True
    for _ in range(500):
        stage.turn(1)
    assert len(stage.exchanger._backlog) <= 102
    stage.store.away = False
    stage.clock.now += 0.2
    stage.turn()
    stage.turn()
    told = sum(operations for _, operations, _ in stage.store.samples)
    assert told + stage.exchanger.dropped == 500
    assert max(age for *_, age in stage.store.samples) <= 10.2


def test_counts_without_a_place_are_counted_as_lost(stage: Stage) -> None:
    """What the meter had no place for is said, not forgotten."""
    stage.meter.next = Reading({}, dropped=4)
    stage.turn()
    assert stage.exchanger.dropped == 4


def test_a_store_that_failed_is_tried_again_within_a_fifth_of_a_second(
    stage: Stage,
) -> None:
    """Neither hammered nor forgotten; the accounts hear of each failure."""
    stage.store.away = True
    for _ in range(1000):
        stage.exchanger.turn()
        stage.clock.now += 0.01
    assert 45 <= stage.store.tries <= 100
    assert stage.exchanger.snapshot.away
    assert stage.exchanger.failures == stage.store.tries
    assert {answer for answer, _ in stage.accounts.answers} == {None}


def test_an_answer_stays_good_until_it_is_stale(stage: Stage) -> None:
    """One lost answer does not put a policy into force."""
    stage.turn()
    stage.store.away = True
    stage.turn()
    assert stage.exchanger.snapshot.away
    assert stage.exchanger.snapshot.fresh(stage.clock.now)
    stage.clock.now += STALE
    assert not stage.exchanger.snapshot.fresh(stage.clock.now)


def test_a_worker_says_what_it_holds() -> None:
    """Anew in each report, also in one whose samples come again."""
    wants = iter([0.1, 0.2])
    stage = Stage(lambda: {"main": Holding(want=next(wants), limit=Amount(100, 0, 0))})
    stage.store.answer_lost = True
    stage.turn(1)
    stage.clock.now += 0.2
    stage.turn()
    told = [report.databases["main"].holding for report in stage.store.reports]
    assert [one.want for one in told if one] == [0.1, 0.2]


# The thread


def test_the_thread_turns_and_tells_a_last_time() -> None:
    """At its end what was counted last is told, and no share is held any more."""
    stage = Stage(lambda: {"main": Holding(want=1, limit=Amount(100, 0, 0))})
    exchanger, store = stage.exchanger, stage.store
    exchanger.start()
    try:
        assert exchanger.wait(30.0)
        assert exchanger.alive
        assert exchanger.snapshot.seen("main") == seen(50)
    finally:
        stage.meter.count(9)
        exchanger.stop(5)
    assert ("main", 9, 0) in store.samples
    assert store.reports[0].databases["main"].holding
    assert store.reports[-1].databases["main"].holding is None
    assert exchanger._loop.join(0)


def test_an_end_waits_no_longer_than_it_may(stage: Stage) -> None:
    """Whatever the store does meanwhile."""
    asked, answer = threading.Event(), threading.Event()

    def stuck(report: Report) -> ExchangeAnswer:
        asked.set()
        assert answer.wait(30)
        raise StoreUnavailable

    stage.store.exchange = stuck  # type: ignore[method-assign]
    stage.exchanger.start()
    try:
        assert asked.wait(30.0)
        stage.exchanger.stop(0.01)
        assert not stage.exchanger._loop.join(0)
    finally:
        answer.set()
        stage.exchanger.stop(10)
    assert stage.exchanger._loop.join(0)


def test_what_tasks_cost_is_recalled_at_first_and_kept_now_and_then() -> None:
    """A worker begins with what others know, and leaves what it knows."""
    stage = Stage()
    stage.store.away = True
    stage.turn()
    assert stage.accounts.recalled == []
    stage.store.away = False
    stage.clock.now += 1
    stage.turn()
    stage.turn()
    assert [text for _, text in stage.accounts.recalled] == ["of others"] * len(
        SETTINGS.limits
    )
    assert stage.store.costs == "of others"
    stage.clock.now += 100
    stage.turn()
    assert stage.store.costs.startswith("of others, ours")
    stage.turn()
    kept = stage.store.costs
    stage.exchanger.start()
    stage.exchanger.stop(10)
    assert len(stage.store.costs) > len(kept)


def test_a_mistake_in_a_turn_does_not_end_the_thread() -> None:
    """It is logged, health says no while it lasts, and the next turns are tried."""
    stage = Stage()
    stage.meter.failure = KeyError("a mistake")
    stage.exchanger.start()
    try:
        stage.clock.now += 10
        eventually(lambda: not stage.exchanger.alive)
        stage.meter.failure = None
        eventually(lambda: stage.exchanger.alive)
    finally:
        stage.exchanger.stop(5)
