"""Numbers and lengths of time, as people read them. Pure."""

from datetime import timedelta

from celery_pecker.kernel.lease import SECOND

NONE = "-"
UNITS = (
    # below so many seconds: the unit in seconds, its name, below which number a tenth
    (0.9995, 0.001, "ms", 9.95),
    (99.5, 1.0, "s", 9.95),
    (5_400.0, 60.0, "min", 0.0),
    (129_600.0, 3_600.0, "h", 0.0),
    (float("inf"), 86_400.0, "days", 0.0),
)
"""As `span` of pecker.js has it."""
TENTHS_BELOW = 10.0
"""A second: a rate from here on is written without a tenth."""


def count(number: float) -> str:
    """Return a whole number: 12,345."""
    return f"{number:,.0f}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 message, 2 messages."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def duration(length: timedelta | float | None) -> str:
    """Return a length of time, or of so many seconds: 4.2 ms, 30 s; - for none."""
    if length is None:
        return NONE
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for below, unit, name, tenths_below in UNITS:
        if abs(seconds) < below:
            value = abs(seconds) / unit
            return (
                f"{value:.1f} {name}" if value < tenths_below else f"{value:.0f} {name}"
            )
    raise AssertionError


def span(us: int | None) -> str:
    """Return a length of time that is given in microseconds."""
    return duration(None if us is None else us / SECOND)


def rate(per_second: float) -> str:
    """Return how many a second, without the words."""
    if per_second >= TENTHS_BELOW:
        return count(per_second)
    return f"{per_second:.1f}".removesuffix(".0")


def pace(per_second: float) -> str:
    """Return how many a second: 12/s."""
    return f"{rate(per_second)}/s"
