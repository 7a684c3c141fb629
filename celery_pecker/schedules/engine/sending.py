"""Slots on their way to the broker: sent, kept for another try, or missed.

Between the claim and the broker's confirmation a slot is in no table but only here
(at most once), so everything is ready before the claim, and the way out is short.
What could not be sent is tried again until it is too late for the slot, never beyond
(no pile-up), and then counted as missed. Only what cannot double is tried again:
batches of which nothing was sent, or whose token makes the broker ignore a second copy.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from celery_pecker import signals
from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.kernel.lease import SECOND, SKEW
from celery_pecker.schedules.engine.model import RunMode, Slot, task_id
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.publishing import (
    NONE,
    Errors,
    Publisher,
    sample,
    shown,
)
from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.history.report import Report

logger = logging.getLogger(__name__)

SKEW_US = int(SKEW * SECOND)


@dataclass(slots=True)
class _PendingSlot:
    token: str
    slots: list[Slot]
    resent: bool = False
    """Whether it was tried before: then the next slot's turn ends it."""


@dataclass(slots=True)
class Sending:
    """Publishes slots; keeps, bounded, what may be tried again.

    Each entry's message is built before its first claim. Building takes about half a
    millisecond: 20,000 entries that were all built before the first claim kept a
    replica from its work for 25 seconds. What is due is built just before it is
    claimed, the rest while nothing is due.
    """

    publisher: Publisher
    pending: PendingWrites
    timekeeper: Timekeeper
    stored: StoredSync | None = None
    _: KW_ONLY
    schema: str
    holder: str
    trace: Callable[[Slot], str | None] | None = None
    unbuilt: dict[str, Any]
    """Entries of code, as Celery has them, whose messages are not built yet."""
    built: Callable[[], None] = lambda: None
    """Called after the last of them."""
    kept: list[_PendingSlot] = field(default_factory=list, init=False)
    batches: int = field(default=0, init=False)

    @property
    def waiting(self) -> int:
        """How many slots wait for another try."""
        return sum(len(kept.slots) for kept in self.kept)

    def reachable(self) -> bool:
        """Return whether the broker can be reached now; call it before a claim.

        A replica that cannot reach the broker leaves the slots to those that can.
        """
        try:
            self.publisher.ensure()
        except BrokerUnavailable as error:
            logger.warning(
                "pecker: broker %s, nothing claimed (%d slots wait): %s",
                error.state,
                self.waiting,
                error,
            )
            return False
        return True

    def prepare(self, names: Sequence[str]) -> set[str] | None:
        """Build the messages of entries that are due; return those that cannot be sent.

        None: none of them, as the broker went away; others may win their slots.
        """
        try:
            self._build(names)
            return self._unready(names)
        except BrokerUnavailable as error:
            logger.warning("pecker: broker went away, nothing claimed: %s", error)
            return None

    def prepare_more(self, *, within: float) -> bool:
        """Build other messages for so many seconds; return whether there are more."""
        until = self.timekeeper.now() + within
        try:
            while self.unbuilt:
                if self.timekeeper.now() >= until:
                    return True
                self._build_one(next(iter(self.unbuilt)))
            return self.stored is not None and self.stored.build_ahead()
        except BrokerUnavailable:
            return False  # reported before the next claim

    def send(self, slots: list[Slot], now_us: int, *, prepared: bool = False) -> int:
        """Publish newly won slots; return how many the broker has.

        ``prepared``: their messages were built a moment ago, before the claim.
        """
        self.batches += 1
        kept = _PendingSlot(f"{self.holder}:{self.batches}", slots)
        if prepared:
            return self._send(kept, now_us)
        self.kept.append(kept)  # the database may be away: then it is tried again
        self._keep_ready(kept)
        self.kept.remove(kept)
        return self._send(kept, now_us)

    def retry(self, now_us: int) -> int:
        """Try again what was kept; return how many the broker has now."""
        sent = 0
        for kept in self.kept[:]:
            # One batch at a time: of all together the first messages would have made
            # room for the last, and their slots count as those of removed schedules.
            self._keep_ready(kept)
            self.kept.remove(kept)
            sent += self._send(kept, now_us)
        return sent

    def _build(self, names: Sequence[str]) -> None:
        """Build the messages of entries of code, unless they are built."""
        if not self.unbuilt:
            return  # from then on this costs a wake-up nothing
        for name in names:
            if name in self.unbuilt:
                self._build_one(name)

    def _build_one(self, name: str) -> None:
        self.publisher.prepare(self.unbuilt[name])
        del self.unbuilt[name]
        if not self.unbuilt:
            self.built()

    def _unready(self, names: Sequence[str]) -> set[str]:
        """Build messages of stored entries; return those that cannot be sent now."""
        return self.stored.unready(names) if self.stored is not None else set()

    def _keep_ready(self, kept: _PendingSlot) -> None:
        """Have the messages of what is kept; what has none any more does not run."""
        try:
            gone = self._unready([slot.entry.name for slot in kept.slots])
        except BrokerUnavailable:
            return  # as its next try says
        if gone:
            removed = [slot for slot in kept.slots if slot.entry.name in gone]
            kept.slots = [slot for slot in kept.slots if slot.entry.name not in gone]
            why = "their schedule was removed, or its message cannot be built"
            self.refuse(removed, why, Report.MISSED)

    def expire(self, now_us: int) -> None:
        """Count what has become too late, without asking the broker."""
        for kept in self.kept:
            kept.slots = self._in_time(kept, now_us)
        self.kept = [kept for kept in self.kept if kept.slots]

    def miss(
        self, slots: Sequence[Slot], reason: str, report: Report, errors: Errors = NONE
    ) -> None:
        """Count slots that will have no message; `errors` are those of entries."""
        if not slots:
            return
        self.pending.note(slots, report, errors)
        names = [slot.entry.name for slot in slots]
        self.pending.count_missed(names)
        self.pending.refused += len(names)
        logger.warning(
            "pecker: %d slots missed (%s): %s", len(names), reason, sample(names)
        )
        signals.missed.send(
            signals.Missed(names=tuple(names), slots=len(names), reason=reason)
        )

    def _send(self, kept: _PendingSlot, now_us: int) -> int:
        slots = kept.slots = self._in_time(kept, now_us)
        if not slots:
            return 0
        try:
            # Also those that no claim of this process came before.
            self._build([slot.entry.name for slot in slots])
            batch = [self._dispatch(slot) for slot in slots]
            left_us = min(slot.until_us for slot in slots) - now_us
            self.publisher.publish(batch, kept.token, within=left_us / SECOND)
        except BrokerUnavailable as error:
            logger.warning(
                "pecker: broker %s, %d slots kept for another try: %s",
                error.state,
                len(slots),
                error,
            )
            self.kept.append(_PendingSlot(kept.token, slots, resent=True))
            return 0
        except PublishUncertain as error:
            return self._uncertain(kept, error)
        except BaseException as error:
            # Not the broker's doing: a bug, here or in an entry's own code. The loop
            # logs it; the slots must not vanish without a count.
            self._give_up(slots, f"publishing failed: {error!r}")
            raise
        self._delivered(slots)
        return len(slots)

    def _uncertain(self, kept: _PendingSlot, error: PublishUncertain) -> int:
        done = [slot for slot in kept.slots if slot.entry.name in error.done]
        rest = [slot for slot in kept.slots if slot.entry.name not in error.done]
        self._delivered(done)
        if error.retry_safe:
            logger.warning(
                "pecker: broker went away, %d slots kept for another try under the"
                " same token: %s",
                len(rest),
                error,
            )
            self.kept.append(_PendingSlot(kept.token, rest, resent=True))
        else:
            self._give_up(rest, error.why, error.refused)
        return len(done)

    def _give_up(
        self, slots: Sequence[Slot], reason: str, errors: Errors = NONE
    ) -> None:
        """Count as missed what will not be sent again; the rest stays pending."""
        lost = [slot for slot in slots if not slot.kept]
        self.miss(lost, reason, Report.FAILED_TO_SEND, errors)
        if len(lost) < len(slots):
            logger.warning(
                "pecker: %d slots stay pending (%s)", len(slots) - len(lost), reason
            )

    def _delivered(self, slots: Sequence[Slot]) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            for slot in slots:
                logger.debug(
                    "pecker: done with %s, due %s, era %d, epoch %d",
                    slot.entry.name,
                    shown(slot.due_us),
                    slot.era,
                    slot.epoch,
                )
        self.pending.sent(slots)

    def refuse(
        self, slots: Sequence[Slot], reason: str, report: Report = Report.MISFIRED
    ) -> None:
        """Count slots that are not run, so that no other replica runs them."""
        self.miss(slots, reason, report)
        self.pending.confirm(slots)

    def _in_time(self, kept: _PendingSlot, now_us: int) -> list[Slot]:
        """Return what may still be sent; count the rest.

        An at-least-once slot whose trust is over, but not its deadline, is no miss:
        another replica sends it.
        """
        timely: list[Slot] = []
        late: list[Slot] = []
        over: list[Slot] = []
        for slot in kept.slots:
            if (slot.turn_us if kept.resent else slot.until_us) > now_us:
                timely.append(slot)
            elif not slot.kept:
                late.append(slot)
            elif slot.deadline_us is not None and slot.deadline_us <= now_us:
                over.append(slot)
        self.miss(late, "too late to be sent", Report.MISSED)
        self.refuse(over, "their deadline is over", Report.MISSED)
        return timely

    def _dispatch(self, slot: Slot) -> Dispatch:
        name, deadline_us = slot.entry.name, slot.deadline_us
        header: dict[str, object] = {
            "name": name,
            "due_at": shown(slot.due_us),
            "era": slot.era,
            "epoch": slot.epoch,
            "deadline": None if deadline_us is None else shown(deadline_us),
        }
        if slot.asked:
            header["asked"] = True
        if self.trace is not None and (parent := self.trace(slot)) is not None:
            header["traceparent"] = parent
        ends = latest = None
        if slot.entry.policy.run is RunMode.LOCAL:
            before = self.timekeeper.before
            latest = before(slot.until_us)
            ends = None if deadline_us is None else before(deadline_us)
        return Dispatch(
            name=name,
            task_id=task_id(self.schema, name, slot.due_us, slot.era),
            header=header,
            expires=None if deadline_us is None else from_us(deadline_us + SKEW_US),
            ends=ends,
            latest=latest,
        )
