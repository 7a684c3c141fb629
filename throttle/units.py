"""Whole numbers for what the store adds up: their sums are exact, in Lua too."""

import math

from throttle.model import Amount

WHOLE = 1_000_000
"""Shares are millionths of the limit, durations and instants microseconds."""
THOUSAND = 1000
"""Operations and rows are thousandths."""
MOST = 1_000_000_000
"""Operations, seconds or rows of one sample: what is more is nonsense."""
WANTED = 1000
"""Limits that a holder may want."""
OLDEST = 60
"""Seconds that a sample may be old; windows are kept for less."""
LONGEST = 10
"""Seconds that a sample may span."""
LATEST = 3600
"""Seconds that a signal, or a watcher, may last."""
ADJUSTED = 1000
"""Times a limit that it may be set to."""
ADJUSTED_FOR = 7 * 86_400
"""Seconds that a limit may be set for."""


def whole(number: float, unit: int, most: float = MOST) -> int:
    """Return a number in units; nonsense is zero, or the most that there can be."""
    if not number > 0:  # negative, or no number at all
        return 0
    return round(min(number, most) * unit)


def counted(amount: Amount) -> tuple[int, int, int]:
    """Return thousandths of operations, microseconds, thousandths of rows."""
    return (
        whole(amount.operations, THOUSAND),
        whole(amount.seconds, WHOLE),
        whole(amount.rows, THOUSAND),
    )


def limited(limit: Amount) -> tuple[int, int]:
    """Return thousandths of operations and microseconds, per second; 0: no limit."""
    return (
        whole(limit.operations, THOUSAND) if math.isfinite(limit.operations) else 0,
        whole(limit.seconds, WHOLE) if math.isfinite(limit.seconds) else 0,
    )


def amount(operations: float, seconds: float, rows: float) -> Amount:
    """Return what was counted so."""
    return Amount(operations / THOUSAND, seconds / WHOLE, rows / THOUSAND)
