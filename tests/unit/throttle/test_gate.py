"""The dispatcher's gate: cycles, quotas, policies. What is heard is the test's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttle.doubles import Clock, seen
from throttle.errors import Misconfigured
from throttle.exchange import Snapshot
from throttle.gate import Gate
from throttle.limits import quota
from throttle.model import (
    STALE,
    TICK,
    Amount,
    Estimator,
    ExchangeAnswer,
    Limit,
    Policy,
    Seen,
)
from throttle.settings import Settings


class Heard:
    """What was last heard, as a test says."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.snapshot = Snapshot()

    def wait(self, timeout: float) -> bool:
        """Say that nothing is waited for."""
        return timeout < 0

    def say(self, traffic: float, *, factor: float = 1.0) -> None:
        """This is heard now."""
        answers = {"main": seen(traffic, factor=factor), "other": seen(0)}
        answer = ExchangeAnswer(at=0, databases=answers)
        self.snapshot = Snapshot(answer, self.clock.now, away=False)


class Stage:
    """A gate, what it hears and its clock."""

    def __init__(self, **more: object) -> None:
        self.clock = Clock()
        self.heard = Heard(self.clock)
        settings = {
            key: more.pop(key) for key in list(more) if key.startswith("throttle_")
        }
        self.gate = Gate(
            {
                "throttle_redis_url": "redis://nowhere",
                "throttle_limits": {"main": 1000, "other": 1000},
                **settings,
            },
            exchange=self.heard,
            clock=self.clock,
            **more,  # type: ignore[arg-type]
        )

    def cycle(self, traffic: float | None = None, cost: float = 1.0) -> int:
        """One cycle, begun by hand; return how many tasks passed."""
        self.gate.cycle()
        if traffic is not None:
            self.heard.say(traffic)
        passed = 0
        while passed < 1000 and self.gate.admit("main", cost).admitted:
            passed += 1
        return passed


@pytest.fixture
def stage() -> Stage:
    """Give a gate of two databases with a limit of 1,000 operations a second."""
    return Stage()


@pytest.mark.parametrize(
    ("traffic", "tasks"),
    [(0, 100), (1, 99), (500, 50), (555, 44), (990, 1), (995, 0), (1000, 0), (5000, 0)],
)
def test_a_cycle_has_the_published_quota(
    stage: Stage, traffic: float, tasks: int
) -> None:
    """That is max((limit - traffic) * 100 / limit, 0), whole tasks of it."""
    assert stage.cycle(traffic) == tasks


@given(
    traffic=st.floats(0, 1e6),
    busy=st.floats(0, 1e3),
    limit=st.floats(1, 1e6),
    factor=st.floats(0.1, 1),
)
def test_the_quota_is_the_formula_of_the_scarcer_dimension(
    traffic: float, busy: float, limit: float, factor: float
) -> None:
    """By operations, and by busy connections where they are limited too."""
    amount = Amount(traffic, busy)
    by_operations = max((limit * factor - traffic) * 100 / (limit * factor), 0)
    by_seconds = max((20 * factor - busy) * 100 / (20 * factor), 0)
    one = Limit(database="main", operations=limit)
    both = Limit(database="main", operations=limit, seconds=20)
    assert quota(one, amount, factor) == pytest.approx(by_operations, abs=1e-6)
    assert quota(both, amount, factor) == pytest.approx(
        min(by_operations, by_seconds), abs=1e-6
    )


def test_the_traffic_is_told_by_the_estimator_of_the_settings() -> None:
    """Weighted, unless fast is asked for."""
    for estimator, left in (("weighted", 90.0), ("fast", 20.0)):
        stage = Stage(throttle_estimator=estimator)
        traffic = {Estimator.WEIGHTED: Amount(100), Estimator.FAST: Amount(800)}
        known = Seen(traffic=traffic, outside=traffic)
        answer = ExchangeAnswer(at=0, databases={"main": known})
        stage.heard.snapshot = Snapshot(answer, stage.clock.now, away=False)
        assert stage.gate.remaining("main") == pytest.approx(left)


def test_the_second_signal_lowers_the_limit(stage: Stage) -> None:
    """Half a limit is full at half the traffic."""
    stage.heard.say(250, factor=0.5)
    assert stage.gate.remaining("main") == pytest.approx(50)
    stage.gate.cycle()
    stage.heard.say(500, factor=0.5)
    assert stage.gate.remaining("main") == 0


def test_each_database_has_a_quota_of_its_own(stage: Stage) -> None:
    """A hot database does not hold what goes to another."""
    assert stage.cycle(1000) == 0
    assert stage.gate.admit("other").admitted


def test_falling_traffic_gives_no_second_quota_within_a_cycle(stage: Stage) -> None:
    """The quota is the one of the cycle's first question."""
    assert stage.cycle(900) == 10
    stage.heard.say(0)
    assert not stage.gate.admit("main").admitted
    assert stage.cycle() == 100


def test_nothing_starts_above_the_limit(stage: Stage) -> None:
    """Not even what is left of a cycle that began calmly."""
    stage.heard.say(0)
    assert stage.gate.admit("main").admitted
    stage.heard.say(1000)
    answer = stage.gate.admit("main")
    assert (answer.admitted, answer.remaining) == (False, 0)
    assert answer.retry_after == pytest.approx(TICK)
    stage.heard.say(999)
    assert stage.gate.admit("main").admitted


def test_what_is_shut_is_at_its_limit_and_nothing_is_taken(stage: Stage) -> None:
    """A cycle that is used up is not: the next one is a second away."""
    assert stage.cycle(500) == 50
    assert stage.gate.shut() == []
    stage.heard.say(1000)
    assert stage.gate.shut() == ["main"]
    stage.heard.say(900)
    stage.gate.cycle()
    assert stage.gate.shut() == []
    assert stage.gate.remaining("main") == 10
    shadow = Stage(throttle_limits={"main": {"operations": 1000, "shadow": True}})
    shadow.heard.say(5000)
    assert shadow.gate.shut() == []


def test_a_cycle_ends_after_its_seconds() -> None:
    """Who never says `cycle()` has one each second; refusals say when the next is."""
    stage = Stage(cycle=2.0)
    stage.heard.say(990)
    assert stage.gate.admit("main").admitted
    stage.clock.now += 0.2
    refused = stage.gate.admit("main")
    assert not refused.admitted
    assert refused.retry_after == pytest.approx(1.8)
    stage.clock.now += refused.retry_after
    stage.heard.say(990)
    assert stage.gate.admit("main").admitted


def test_a_cycle_without_seconds_ends_by_hand_only() -> None:
    """A dispatcher that sleeps has no new quota by that."""
    stage = Stage(cycle=None)
    stage.heard.say(990)
    assert stage.gate.admit("main").admitted
    stage.clock.now += 1000
    stage.heard.say(990)
    assert not stage.gate.admit("main").admitted
    stage.gate.cycle()
    assert stage.gate.admit("main").admitted


def test_a_task_may_be_worth_several(stage: Stage) -> None:
    """What is dear passes as long as all of it has room, the small ones after it."""
    stage.heard.say(900)
    assert stage.gate.admit("main", 7).remaining == pytest.approx(3)
    assert not stage.gate.admit("main", 4).admitted
    assert stage.gate.admit("main", 3).admitted


def test_several_dispatchers_share_a_quota() -> None:
    """Each has its part, so that together they keep to the formula."""
    assert Stage(dispatchers=4).cycle(0) == 25


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        (Policy.OPEN, 40, 1000),
        (Policy.CLOSED, 40, 0),
        (Policy.SAFE, 40, 20),
        (Policy.SAFE, 0, 5),
        (Policy.SAFE, None, 50),
    ],
)
def test_policies_hold_while_nothing_is_heard(
    policy: Policy, before: int | None, after: int
) -> None:
    """From the moment on at which the last answer is stale; safe is never nothing."""
    stage = Stage(throttle_policy=str(policy))
    if before is not None:
        assert stage.cycle(1000 - 10 * before) == before
        stage.clock.now += STALE
        assert stage.cycle() == before
        stage.clock.now += 0.001
    assert stage.cycle() == after
    assert stage.cycle(700) == 30, "it was heard again"


@pytest.mark.parametrize(("policy", "passes"), [("open", 1000), ("closed", 0)])
def test_a_policy_holds_at_once_not_from_the_next_cycle_on(
    policy: str, passes: int
) -> None:
    """A cycle may last a minute, and Redis goes away within it."""
    stage = Stage(throttle_policy=policy, cycle=60.0)
    stage.heard.say(900)
    assert stage.gate.admit("main").admitted
    stage.clock.now += STALE + 0.001
    passed = sum(stage.gate.admit("main").admitted for _ in range(1000))
    assert passed == passes


def test_shadow_lets_all_pass_and_counts() -> None:
    """What would have waited is known before it waits."""
    limits = {"main": {"operations": 1000, "shadow": True}}
    stage = Stage(throttle_limits=limits)
    stage.heard.say(980)
    assert [stage.gate.admit("main").admitted for _ in range(5)] == [True] * 5
    tally = stage.gate.tallies["main"]
    assert (tally.admitted, tally.refused, tally.would_hold) == (5, 0, 3)


def test_what_was_said_is_counted(stage: Stage) -> None:
    """For metrics; by database."""
    assert stage.cycle(970) == 3
    tally = stage.gate.tallies["main"]
    assert (tally.admitted, tally.refused, tally.would_hold) == (3, 1, 0)


# Bad input


def test_an_unknown_database_is_a_mistake(stage: Stage) -> None:
    """The error says which there are."""
    with pytest.raises(Misconfigured, match=r"'nope' has no limit .*main, other"):
        stage.gate.admit("nope")
    with pytest.raises(Misconfigured, match="main, other"):
        stage.gate.remaining("nope")


@pytest.mark.parametrize("cost", [0, -1, 101, float("nan"), float("inf")])
def test_a_cost_that_could_never_pass_is_a_mistake(stage: Stage, cost: float) -> None:
    """It would wait for ever, silently."""
    with pytest.raises(Misconfigured, match="at most 100 tasks"):
        stage.gate.admit("main", cost)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cycle": 0}, "longer than 0"),
        ({"cycle": float("nan")}, "longer than 0"),
        ({"dispatchers": 0}, "1 or more"),
        ({"throttle_limits": {}}, "needs throttle_limits"),
        ({"throttle_limits": {"main": 0}}, "above zero"),
    ],
)
def test_a_gate_that_cannot_work_says_so_at_its_start(
    more: dict[str, object], message: str
) -> None:
    """Not at its first question."""
    with pytest.raises(Misconfigured, match=message):
        Stage(**more)


def test_a_gate_takes_an_app_its_settings_or_a_mapping() -> None:
    """Whatever is at hand."""
    conf = {"throttle_redis_url": "redis://nowhere", "throttle_limits": {"main": 1}}
    heard = Heard(Clock())
    for where in (conf, SimpleNamespace(conf=conf), Settings.read(conf)):
        assert Gate(where, exchange=heard).remaining("main") == 50
