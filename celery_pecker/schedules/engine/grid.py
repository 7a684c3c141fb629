"""Arithmetic of slots on a grid. Pure; the claim does the same in SQL.

The grid of an entry is ``anchor + k * period`` with the last slot as the anchor: there
is no drift, and another period simply counts on from the last slot.
"""

from __future__ import annotations


def latest(anchor_us: int, period_us: int, now_us: int) -> int:
    """Return the last grid instant not after now (before the anchor too)."""
    return anchor_us + (now_us - anchor_us) // period_us * period_us
