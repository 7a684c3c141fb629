"""How many tasks a dispatcher may send: the published formula."""

from __future__ import annotations

import pytest

from throttle.limits import quota
from throttle.model import Amount, Limit


def limit() -> Limit:
    """Return a limit of 5,000 operations per second."""
    return Limit(database="main", operations=5_000)


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
