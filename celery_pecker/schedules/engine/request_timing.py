"""When a requested run may be sent. Pure.

Without a timeout: at once. With one, two runs of an entry must never be inside their
deadlines together, so it waits for the gap between the last slot's deadline and the
next slot, and has to end in it.
"""

from dataclasses import dataclass

from celery_pecker.schedules.engine.model import Entry, RequestedRun

REQUEST_TIMEOUT_US = 300_000_000
"""A question that could not be answered for so long is given up and counted."""
TOO_LATE = "asked for, and not possible in five minutes"


@dataclass(frozen=True, slots=True)
class Send:
    """Send it now."""

    ends_us: int | None
    """Its deadline."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again, at that instant or at the next look."""

    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """It will not be sent."""

    reason: str


def waited_too_long(asked: RequestedRun, now_us: int) -> bool:
    """Return whether it has waited too long for whatever replica."""
    return asked.waits and now_us - asked.due_us >= REQUEST_TIMEOUT_US


def decide(
    entry: Entry, asked: RequestedRun, *, busy_us: int, now_us: int
) -> Send | Wait | Drop:
    """Return what to do with a requested run.

    ``busy_us`` is the deadline of the last run that was asked for.
    """
    if waited_too_long(asked, now_us):
        return Drop(TOO_LATE)
    timeout_us = entry.policy.timeout_us
    if timeout_us is None:
        return Send(None)
    if entry.recurrence is not None and entry.recurrence.is_polled:
        return Drop("asked for, but it is not known when its next slot comes")
    next_us = entry.next(asked.executed_us, now_us)
    return _between(asked, next_us, timeout_us, busy_us=busy_us, now_us=now_us)


def _between(
    asked: RequestedRun, next_us: int, timeout_us: int, *, busy_us: int, now_us: int
) -> Send | Wait:
    """Find room between the last slot's deadline and the next slot."""
    free_us = asked.executed_us + timeout_us if asked.task_epoch else 0
    free_us = max(free_us, busy_us)
    if free_us > now_us:
        return Wait(free_us)
    ends_us = min(now_us + timeout_us, next_us)
    # The rest of a gap that is nearly over is too short: the next one is whole.
    whole_us = min(timeout_us, next_us - max(free_us, asked.executed_us))
    if 2 * (ends_us - now_us) < whole_us or ends_us <= now_us:
        return Wait()
    return Send(ends_us)
