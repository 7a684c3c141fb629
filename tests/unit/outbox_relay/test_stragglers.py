"""What lies below the watermark is looked at in slices that take little time."""

from __future__ import annotations

from celery_pecker.outbox.relay.watermark import (
    FIRST,
    LEAST,
    LONG,
    REST_INTERVAL,
    SHORT,
    SLICE_INTERVAL,
    StragglerScan,
)


def test_nothing_is_below_the_start() -> None:
    """Neither before the first claim nor in a table that was never used."""
    assert StragglerScan().slice(None, 0.0) is None
    assert StragglerScan().slice(0, 0.0) is None


def test_slices_follow_each_other_and_then_there_is_a_rest() -> None:
    """Each id below the mark is in one of them."""
    scan, passed, now = StragglerScan(), 2 * FIRST + 5, 0.0
    found = []
    for _ in range(3):
        ids = scan.slice(passed, now)
        assert ids is not None
        found.append(ids)
        scan.looked(ids[1], passed, seconds=SHORT, monotonic=now)
        assert scan.slice(passed, now) is None
        now += SLICE_INTERVAL
    assert found == [(0, FIRST), (FIRST, 2 * FIRST), (2 * FIRST, passed)]
    assert scan.slice(passed, now) is None
    assert scan.slice(passed, now + REST_INTERVAL) == (0, FIRST)


def test_a_slice_is_as_long_as_can_be_walked_in_a_short_time() -> None:
    """Millions of ids where nothing is left, few under a held snapshot."""
    scan, passed = StragglerScan(), 10**12
    after = upto = slices = 0
    while upto < passed:
        _, upto = _slice(scan, passed, seconds=0.0)
        slices += 1
    assert slices <= 12
    for _ in range(30):
        after, upto = _slice(scan, 2 * passed, seconds=2 * LONG)
    assert upto - after == LEAST


def _slice(scan: StragglerScan, passed: int, *, seconds: float) -> tuple[int, int]:
    """Look at the next slice, an hour after the one before."""
    ids = scan.slice(passed, 0.0)
    assert ids is not None
    scan.looked(ids[1], passed, seconds=seconds, monotonic=-3_600.0)
    return ids


def test_a_mark_that_was_lowered_is_below_what_was_looked_at() -> None:
    """The walk begins anew."""
    scan = StragglerScan()
    scan.looked(FIRST, 10 * FIRST, seconds=SHORT, monotonic=0.0)
    assert scan.slice(7, SLICE_INTERVAL) == (0, 7)
