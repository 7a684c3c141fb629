"""Which of several missed slots is taken, and whether it still runs. Pure."""

from collections import deque
from collections.abc import Callable

from celery_pecker.schedules.engine.model import Misfire, Policy

SECOND = 1_000_000
COUNTED = 50
"""Missed slots of a crontab are counted one by one up to here: after a day without a
scheduler, a thousand entries of every minute must not hold up the rest for minutes."""


def choose(
    following: Callable[[int], int], first_us: int, now_us: int, depth: int
) -> tuple[int, int]:
    """Return (slot to take, slots passed over) where ``first_us`` is due.

    ``following`` gives the first instant after another. The slot is the latest that is
    due, or the oldest of the last ``depth``. Past 50 missed slots (or ``depth``) the
    latest is found by halving and taken alone, and the count is a lower bound.
    """
    recent: deque[int] = deque(maxlen=depth)
    count, instant = 0, first_us
    counted = max(COUNTED, depth)
    while instant <= now_us and count < counted:
        recent.append(instant)
        count += 1
        after = following(instant)
        if after <= instant:
            break
        instant = after
    else:
        if instant <= now_us:
            recent.clear()
            recent.append(_last(following, instant, now_us))
            count += 1
    return recent[0], count - len(recent)


def _last(following: Callable[[int], int], known_us: int, now_us: int) -> int:
    """Return the latest instant not after now; ``known_us`` is one of them."""
    low, high = known_us, now_us
    while high - low > SECOND:
        middle = (low + high) // 2
        instant = following(middle)
        if middle < instant <= now_us:
            low = instant
        else:
            high = middle
    return low


def latest_before(following: Callable[[int], int], now_us: int) -> int | None:
    """Return the latest instant not after now, looking back up to eight years.

    Needed only where the last slot is of no use: the database's clock stepped back.
    """
    back_us = 60 * SECOND
    while back_us < 8 * 366 * 86_400 * SECOND:
        first_us = following(now_us - back_us)
        if first_us <= now_us:
            return choose(following, first_us, now_us, 1)[0]
        back_us *= 8
    return None


def runs(policy: Policy, due_us: int, now_us: int) -> bool:
    """Return whether a slot that comes to light now still runs."""
    late_us = now_us - due_us
    if policy.timeout_us is not None and late_us >= policy.timeout_us:
        return False
    return policy.grace_us is None or late_us <= policy.grace_us


def default_grace_us(misfire: Misfire, period_us: int | None) -> int | None:
    """Return the grace of an entry that names none.

    Only *skip* needs one: a tenth of the period, at least a second and at most a
    minute, since a slot is never found at its very instant.
    """
    if misfire is not Misfire.SKIP:
        return None
    return max(SECOND, min((period_us or 60 * SECOND) // 10, 60 * SECOND))
