"""The figures of a benchmark say what arrived, and what did not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.schedules.arrivals import Arrivals


def of(*messages: tuple[int, float], due: tuple[float, ...] = ()) -> Arrivals:
    """Return messages as (entry, instant)."""
    entries, arrived = zip(*messages, strict=True) if messages else ((), ())
    return Arrivals(
        np.array(entries, dtype=np.int64),
        np.array(arrived, dtype=np.float64),
        np.array(due, dtype=np.float64),
    )


def test_a_scheduler_that_drifts_lags_behind_its_own_first_message() -> None:
    """Ten milliseconds more with each period; what it began with is not asked."""
    drifting = of((0, 7.0), (0, 8.01), (0, 9.02), (1, 7.5), (1, 8.5))
    assert drifting.lag() == pytest.approx([0, 0.01, 0.02, 0, 0])


def test_what_has_not_come_by_the_end_is_late_by_then() -> None:
    """Of one entry two messages of five came, of another none."""
    window = of((0, 10.5), (0, 12.0))
    late = sorted(window.outstanding(10.0, 15.0, entries=2))
    assert late == pytest.approx([0.5, 1, 1.5, 2, 2.5, 3, 4, 5])


def test_who_sends_everything_owes_nothing() -> None:
    """Also where the first message came in the middle of a second."""
    window = of(*[(0, 10.05 + second) for second in range(5)])
    assert not len(window.outstanding(10.0, 15.0, entries=1))


def test_a_window_without_a_message_is_all_outstanding() -> None:
    """A peer that was silent is shown with what it owed."""
    assert not len(of().lag())
    assert len(of().outstanding(10.0, 15.0, entries=3)) == 15
