"""What is asked of a claim for an entry, and what a win becomes. Pure."""

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine import misfire
from celery_pecker.schedules.engine.bounds import following
from celery_pecker.schedules.engine.model import (
    ClaimedSlot,
    ClaimRequest,
    Delivery,
    Entry,
    Misfire,
    Orphan,
    Slot,
)
from celery_pecker.schedules.engine.request_timing import REQUEST_TIMEOUT_US as ASKED_US

TRUST_US = 10 * SECOND
"""How long an at-least-once slot may be published by its winner."""
SLOWEST_US = 2 * SECOND
"""How long claim and publish may take together where the period is shorter."""
CLAIM_TIMEOUT_US = 300 * SECOND
"""How long an at-most-once slot is kept for a broker that is away: half of the time
for which the broker remembers a token (brokers.redis.lane.TOKEN_SECONDS)."""


def claim_request(
    entry: Entry, *, seen_us: int, ahead_us: int, now_us: int
) -> ClaimRequest | int:
    """Return what to claim, or, where it is not due after all, when to ask again.

    A grid's slot is worked out by the claim itself. Of any other schedule it is worked
    out here, from the last slot that was seen and the database's time.
    """
    recurrence = entry.recurrence
    if recurrence is None:
        return ClaimRequest(entry=entry, ahead_us=ahead_us)

    after = following(entry, seen_us, now_us)

    passed = 0
    if seen_us > now_us + ahead_us:  # the clock stepped back: count from now
        before_us = (
            None if recurrence.is_polled else misfire.latest_before(after, now_us)
        )
        if before_us is None and not recurrence.is_polled:
            # Its first instant is to come once more: a single run, or one with a start.
            return after(now_us)
        instant_us = before_us or now_us
    else:
        instant_us = after(seen_us)
        if instant_us > now_us:
            return instant_us
        if not recurrence.is_polled:
            instant_us, passed = misfire.choose(
                after, instant_us, now_us, entry.policy.depth
            )
    return ClaimRequest(
        entry=entry,
        ahead_us=ahead_us,
        instant_us=instant_us,
        seen_us=seen_us,
        passed=passed,
    )


def slot_of(entry: Entry, win: ClaimedSlot, sent_us: int) -> Slot:
    """Name the slot of a win, and when it is too late to publish it.

    ``sent_us`` is the database's time from before the claim was sent: trust counts
    from there (I2). At least once: trust ends well before another may send the slot
    (upkeep.PENDING_LEASE). At most once: it ends with the next slot's turn, or two
    seconds after the claim where that is later (a scheduler slower than the period must
    run late, not never), and before the broker forgets the token under which a retry is
    exact. Never after the deadline.

    A grid's timeout is at most its period. The gaps of other schedules differ, so there
    the deadline is the next slot if that comes before the timeout is over; of a
    schedule that can only be asked "now?" it is not known.
    """
    policy = entry.policy
    turn_us = sent_us + CLAIM_TIMEOUT_US
    if entry.period_us is not None and policy.misfire is not Misfire.CATCH_UP:
        turn_us = min(turn_us, win.due_us + entry.period_us)
    if policy.delivery is Delivery.AT_LEAST_ONCE:
        turn_us = until_us = sent_us + TRUST_US
    else:
        until_us = max(turn_us, sent_us + SLOWEST_US)
    ends_us = None
    if policy.timeout_us is not None:
        deadline_us = win.due_us + policy.timeout_us
        recurrence = entry.recurrence
        if recurrence is not None and not recurrence.is_polled:
            # asked a moment ago, when the next wake-up was planned: it remembers
            ends_us = min(deadline_us, recurrence.next(win.due_us, sent_us))
        until_us = min(until_us, deadline_us if ends_us is None else ends_us)
    return Slot(
        entry=entry,
        due_us=win.due_us,
        era=win.era,
        epoch=win.epoch,
        until_us=until_us,
        turn_us=min(turn_us, until_us),
        ends_us=ends_us,
    )


def orphan_slot(entry: Entry, orphan: Orphan, sent_us: int) -> Slot:
    """Name a slot that was claimed and never confirmed, reclaimed by this replica."""
    if orphan.asked:
        won = (orphan.due_us, orphan.era, orphan.epoch)
        return requested_slot(entry, won, orphan.ends_us, sent_us)
    win = ClaimedSlot(0, orphan.due_us, orphan.epoch, orphan.era, 0, paused=False)
    return slot_of(entry, win, sent_us)


def still_runs(slot: Slot, now_us: int) -> bool:
    """Return whether a slot that comes to light now still runs."""
    if not slot.asked:
        return misfire.runs(slot.entry.policy, slot.due_us, now_us)
    if now_us - slot.due_us >= ASKED_US:
        return False
    return slot.ends_us is None or now_us < slot.ends_us


def requested_slot(
    entry: Entry, won: tuple[int, int, int], ends_us: int | None, sent_us: int
) -> Slot:
    """Name a run that was asked for, won as (due_us, era, epoch)."""
    due_us, era, epoch = won
    until_us = sent_us + TRUST_US
    if ends_us is not None:
        until_us = min(until_us, ends_us)
    return Slot(
        entry=entry,
        due_us=due_us,
        era=era,
        epoch=epoch,
        until_us=until_us,
        turn_us=until_us,
        asked=True,
        ends_us=ends_us,
    )
