"""Take the runs that people ask for, once they may be sent.

"Run now" is an unclaimed row of pecker_pending: the first replica that declares the
entry takes it, under an epoch above the last slot's. From then on it is
like a slot that is delivered at least once. One with a deadline stays as a row until
then, so that the next one waits for it.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from celery_pecker.schedules.engine import request_timing
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.claims import requested_slot
from celery_pecker.schedules.engine.model import (
    Delivery,
    Entry,
    Policy,
    RequestedRun,
    Slot,
)
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.sending import Sending
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.history.report import Report

logger = logging.getLogger("celery_pecker.beat")

Taken = tuple[RequestedRun, int | None]
"""A run and its deadline."""
Dropped = tuple[RequestedRun, str]
"""A run that is given up, and why."""


@dataclass(slots=True)
class RequestedRuns:
    """The looks of one replica; a look that finds nothing only reads."""

    agenda: Agenda
    repository: Repository
    timekeeper: Timekeeper
    sending: Sending
    pending: PendingWrites
    every: float
    timeout: float
    recall: Callable[[Iterable[str]], None]
    next: float = 0.0
    """When the next look is due by the monotonic clock."""

    @property
    def due(self) -> bool:
        """Whether it is time for a look."""
        return self.timekeeper.now() >= self.next

    def postpone(self) -> None:
        """Look later: what is taken now could not be sent."""
        self.next = self.timekeeper.now() + self.every

    def step(self) -> bool:
        """Look once, take and send what may be sent; whether there was anything."""
        self.postpone()
        time = self.timekeeper
        sent = time.now()
        now_us, waiting = self.repository.asked()
        time.observe(now_us, sent=sent)
        time.handle_clock_step()
        over = [one for one in waiting if one.over(now_us)]
        if over:
            self.repository.drop_requested(over)
        self.recall(one.name for one in waiting)
        ours = [one for one in waiting if self.agenda.knows(one.name)]
        take, give_up = self._sort(ours, now_us)
        # No replica can read the entry, or build its message: one would have it by now.
        give_up += [
            (one, request_timing.TOO_LATE)
            for one in waiting
            if not self.agenda.knows(one.name)
            and request_timing.waited_too_long(one, now_us)
        ]
        if give_up:
            self._give_up(give_up)
        slots = self._take(take, sent) if take else []
        if slots:
            logger.info("pecker: %d runs that were asked for", len(slots))
            self.pending.note(slots, Report.ASKED)
            self.sending.send(slots, time.now_us())
        return bool(take or give_up)

    def _sort(
        self, asked: list[RequestedRun], now_us: int
    ) -> tuple[list[Taken], list[Dropped]]:
        """Return what to take, one of each entry, and what to give up."""
        busy: dict[str, int] = {}
        for one in asked:
            if not one.waits:
                busy[one.name] = max(busy.get(one.name, 0), one.ends_us or 0)
        take: dict[str, Taken] = {}
        give_up: list[Dropped] = []
        for one in asked:
            if not one.waits or one.name in take:
                continue
            entry, busy_us = self.agenda.entry(one.name), busy.get(one.name, 0)
            decided = request_timing.decide(entry, one, busy_us=busy_us, now_us=now_us)
            if isinstance(decided, request_timing.Send):
                take[one.name] = one, decided.ends_us
            elif isinstance(decided, request_timing.Drop):
                give_up.append((one, decided.reason))
            elif decided.until_us is not None:
                self.next = min(self.next, self.timekeeper.until(decided.until_us))
        return [*take.values()], give_up

    def _take(self, take: list[Taken], sent: float) -> list[Slot]:
        time = self.timekeeper
        wins = self.repository.take_requested(
            take,
            [self.agenda.entry(one.name).version for one, _ in take],
            until_us=time.at_us(sent + self.timeout),
        )
        ends = {one.name: ends_us for one, ends_us in take}
        sent_us = time.at_us(sent)
        return [
            requested_slot(
                self.agenda.entry(name), (due_us, era, epoch), ends[name], sent_us
            )
            for name, due_us, epoch, era in wins
        ]

    def _give_up(self, drop: list[Dropped]) -> None:
        """Count the runs that no other replica gave up before."""
        why = {(one.name, one.due_us, one.era): reason for one, reason in drop}
        for gone in self.repository.drop_requested([one for one, _ in drop]):
            name, due_us, era = gone
            policy = Policy(delivery=Delivery.AT_MOST_ONCE)  # it may not be known here
            entry = Entry(name=name, task="", described="", policy=policy)
            slot = requested_slot(entry, (due_us, era, 0), None, sent_us=due_us)
            self.sending.miss([slot], why[gone], Report.MISSED)
