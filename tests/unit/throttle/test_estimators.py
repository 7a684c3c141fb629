"""How soon, and how truly, traffic is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.estimators import estimate
from tests.oracle.steady import SECOND
from tests.oracle.windows import BUCKET, Windows
from throttle.limits import quota
from throttle.model import TICK, Amount, Estimator, Limit

RATE = 5000.0
START = 1_800_000_000 * SECOND


def sightings(
    estimator: Estimator, *, step: float, phases: list[float], looks: range
) -> Iterator[tuple[float, float]]:
    """Give what is seen of a step from 0 to 5,000/s, by time after it.

    `step` is where in a second it happens, `phases` when each process reports, `looks`
    when to look, in milliseconds after it.
    """
    windows = Windows()
    began = START + round(step * SECOND)
    last = [began - round(phase * SECOND) for phase in phases]
    for look in looks:
        now = began + look * 1000
        for i, told in enumerate(last):
            end = told
            while end + BUCKET <= now:
                start, end = end, end + BUCKET
                part = RATE * max(end - max(start, began), 0) / len(last)
                counts = (round(part / 1000), 0, 0)
                windows.count(end, 0, BUCKET, counts, outside=False)
            last[i] = end
        yield look / 1000, estimate(estimator, windows, now)[0] / 1000


phases = st.lists(st.floats(0, TICK), min_size=1, max_size=4)


@given(step=st.floats(0, 1), phases=phases)
@pytest.mark.parametrize(
    ("estimator", "bound"), [(Estimator.FAST, 460), (Estimator.WEIGHTED, 2700)]
)
def test_a_step_is_seen_in_time(
    estimator: Estimator, bound: int, step: float, phases: list[float]
) -> None:
    """90 % of it, wherever in a second it falls and whenever processes report."""
    looks = range(bound, bound + 1)
    ((_, traffic),) = sightings(estimator, step=step, phases=phases, looks=looks)
    assert traffic >= 0.9 * RATE


@given(step=st.floats(0, 1), phases=phases)
@pytest.mark.parametrize("estimator", Estimator)
def test_what_is_steady_is_seen_as_it_is(
    estimator: Estimator, step: float, phases: list[float]
) -> None:
    """Neither borders of seconds nor reports on their way make waves."""
    looks = range(0, 6200, 30)
    seen = sightings(estimator, step=step, phases=phases, looks=looks)
    for after, traffic in seen:
        assert traffic <= RATE * 1.001
        if after > 5:
            assert traffic >= RATE * 0.999


def test_the_formula_of_a_cycle() -> None:
    """As it was published, and nothing above the limit."""
    limit = Limit(database="main", operations=5000, seconds=10)
    assert quota(limit, Amount()) == 100
    assert quota(limit, Amount(4000)) == pytest.approx(20)
    assert quota(limit, Amount(4000, seconds=9)) == pytest.approx(10)
    assert quota(limit, Amount(5000)) == 0
    assert quota(limit, Amount(50_000)) == 0
    assert quota(limit, Amount(2000), factor=0.5) == pytest.approx(20)
    assert quota(limit, Amount(), factor=0) == 0
    check_task = Amount(300 * 0.7 * 0.99)
    assert quota(Limit(database="main", operations=300), check_task, factor=0.7) == 1
