"""What one claim of an interval's entry takes, as SQL decides it."""

from __future__ import annotations

from celery_pecker.schedules.engine.bounds import latest


def upcoming(anchor_us: int, period_us: int, now_us: int) -> int:
    """Return the first grid instant after now."""
    return latest(anchor_us, period_us, now_us) + period_us


def claimable(
    executed_us: int, period_us: int, now_us: int, *, ahead_us: int, depth: int = 1
) -> tuple[int, int, bool] | None:
    """Return what a claim takes: (slot, slots passed over, clock stepped back).

    None where nothing is due. ``ahead_us`` is how far the row may lie ahead of the
    clock before that counts as a clock that stepped back.
    """
    if executed_us > now_us + ahead_us:
        return latest(executed_us, period_us, now_us), 0, True
    if executed_us + period_us > now_us:
        return None
    newest = latest(executed_us, period_us, now_us)
    slot = max(executed_us + period_us, newest - (depth - 1) * period_us)
    return slot, (slot - executed_us) // period_us - 1, False
