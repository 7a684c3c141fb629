"""How many tasks a dispatcher may send: the published formula, cycle by cycle."""

from __future__ import annotations

import pytest

from throttle.limits import quota
from throttle.model import Amount, Limit, Policy
from throttle.service import Cycles


def limit(*, policy: Policy = Policy.SAFE, shadow: bool = False) -> Limit:
    """Return a limit of 5,000 operations per second."""
    return Limit(database="main", operations=5_000, policy=policy, shadow=shadow)


@pytest.mark.parametrize(
    ("traffic", "factor", "tasks"),
    [
        (0, 1.0, 100),
        (2_500, 1.0, 50),
        (4_999, 1.0, 0.02),
        (5_000, 1.0, 0),
        (9_000, 1.0, 0),
        (1_250, 0.5, 50),
        (2_500, 0.5, 0),
        (0, 0.0, 0),
    ],
)
def test_the_quota_is_as_published(traffic: float, factor: float, tasks: float) -> None:
    """``max((limit - traffic) * 100 / limit, 0)`` of the limit in force."""
    assert quota(limit(), Amount(traffic), factor) == pytest.approx(tasks)


def test_the_scarcer_dimension_counts() -> None:
    """Few statements that take long fill a database too."""
    both = Limit(database="main", operations=5_000, seconds=4)
    assert quota(both, Amount(500, 3.0)) == pytest.approx(25)


def test_a_cycle_sends_no_more_than_its_quota() -> None:
    """All who ask share it; the next cycle has a new one."""
    cycles = Cycles(limit())
    half = Amount(2_500)
    told = [cycles.admit(1, 10.0 + at / 100, half) for at in range(60)]
    assert sum(one.admitted for one in told) == 50
    assert [one.admitted for one in told] == [True] * 50 + [False] * 10
    assert told[0].remaining == 49
    assert told[-1].retry_after == pytest.approx(1 - 0.59)
    assert cycles.admit(1, 11.0, half).admitted
    assert cycles.admitted == 51


def test_a_large_question_is_answered_whole() -> None:
    """So many or none."""
    cycles = Cycles(limit())
    assert cycles.admit(60, 0.0, Amount()).admitted
    refused = cycles.admit(60, 0.1, Amount())
    assert not refused.admitted
    assert refused.remaining == 40
    assert cycles.admit(40, 0.2, Amount()).admitted


def test_nothing_passes_above_the_limit() -> None:
    """Though the cycle began with a quota."""
    cycles = Cycles(limit())
    assert cycles.admit(1, 0.0, Amount()).admitted
    assert not cycles.admit(1, 0.5, Amount(5_000)).admitted
    assert cycles.admit(1, 0.6, Amount()).admitted


def test_traffic_that_falls_counts_from_the_next_cycle() -> None:
    """In a cycle the quota only shrinks: what was sent is not seen yet."""
    cycles = Cycles(limit())
    assert cycles.admit(10, 0.0, Amount(4_500)).remaining == 0
    assert not cycles.admit(1, 0.5, Amount(0)).admitted
    assert cycles.admit(1, 1.0, Amount(0)).remaining == 99


@pytest.mark.parametrize(
    ("policy", "admitted"),
    [(Policy.OPEN, 1_000), (Policy.CLOSED, 0), (Policy.SAFE, 25)],
)
def test_while_nothing_is_known_the_policy_holds(policy: Policy, admitted: int) -> None:
    """Safe: half of the last quota."""
    cycles = Cycles(limit(policy=policy))
    cycles.admit(1, 0.0, Amount(2_500))
    told = [cycles.admit(1, 5.0, None) for _ in range(1_000)]
    assert sum(one.admitted for one in told) == admitted


def test_safe_never_shuts_for_good() -> None:
    """What was heard last may have been a full database."""
    cycles = Cycles(limit())
    cycles.admit(1, 0.0, Amount(5_000))
    assert sum(cycles.admit(1, 5.0, None).admitted for _ in range(100)) == 5


def test_in_shadow_mode_everything_passes_and_is_counted() -> None:
    """And what is left is told as if it did not."""
    cycles = Cycles(limit(shadow=True))
    told = [cycles.admit(1, 0.0, Amount(2_500)) for _ in range(60)]
    assert all(one.admitted for one in told)
    assert cycles.would_hold == 10
    assert told[-1].remaining == 0
