"""What is read off the count of a sequence."""

from __future__ import annotations

import numpy as np

from benchmarks.schedules.ticks import busiest_second, rate


def test_the_busiest_second_begins_anywhere() -> None:
    """Two bursts within one second count together, whatever the clock says."""
    at = np.arange(0.0, 10.0, 0.01)
    count = np.zeros(len(at))
    for burst in (2.6, 3.2, 6.0):
        count += 100.0 * (at >= burst)
    assert busiest_second((at, count), 0.0) == 200.0
    assert busiest_second((at, count), 4.0) == 100.0
    assert round(rate((at, count), 0.0)) == 30
