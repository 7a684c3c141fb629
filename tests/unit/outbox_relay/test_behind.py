"""What lies below the watermark is looked at in slices that take little time."""

from __future__ import annotations

from celery_pecker.outbox.relay.behind import (
    FIRST,
    LEAST,
    LONG,
    REST_INTERVAL,
    SHORT,
    SLICE_INTERVAL,
    Behind,
)


def test_nothing_is_below_the_start() -> None:
    """Neither before the first claim nor in a table that was never used."""
    assert Behind().slice(None, 0.0) is None
    assert Behind().slice(0, 0.0) is None


def test_slices_follow_each_other_and_then_there_is_a_rest() -> None:
    """Each id below the mark is in one of them."""
    behind, passed, now = Behind(), 2 * FIRST + 5, 0.0
    found = []
    for _ in range(3):
        ids = behind.slice(passed, now)
        assert ids is not None
        found.append(ids)
        behind.looked(ids[1], passed, seconds=SHORT, monotonic=now)
        assert behind.slice(passed, now) is None
        now += SLICE_INTERVAL
    assert found == [(0, FIRST), (FIRST, 2 * FIRST), (2 * FIRST, passed)]
    assert behind.slice(passed, now) is None
    assert behind.slice(passed, now + REST_INTERVAL) == (0, FIRST)


def test_a_slice_is_as_long_as_can_be_walked_in_a_short_time() -> None:
    """Millions of ids where nothing is left, few under a held snapshot."""
    behind, passed = Behind(), 10**12
    after = upto = slices = 0
    while upto < passed:
        _, upto = _slice(behind, passed, seconds=0.0)
        slices += 1
    assert slices <= 12
    for _ in range(30):
        after, upto = _slice(behind, 2 * passed, seconds=2 * LONG)
    assert upto - after == LEAST


def _slice(behind: Behind, passed: int, *, seconds: float) -> tuple[int, int]:
    """Look at the next slice, an hour after the one before."""
    ids = behind.slice(passed, 0.0)
    assert ids is not None
    behind.looked(ids[1], passed, seconds=seconds, monotonic=-3_600.0)
    return ids


def test_a_mark_that_was_lowered_is_below_what_was_looked_at() -> None:
    """The walk begins anew."""
    behind = Behind()
    behind.looked(FIRST, 10 * FIRST, seconds=SHORT, monotonic=0.0)
    assert behind.slice(7, SLICE_INTERVAL) == (0, 7)
