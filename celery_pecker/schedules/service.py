"""One step of a scheduler: what is due → claim → publish → what comes next.

Pure decisions are made elsewhere (grid, misfire, agenda); this is the doing, in order.
The statement of a claim is the only point where replicas meet. What happens if the
process dies or freezes, or an answer is lost, at each line is told in
docs/explanation/delivery.md.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from celery_pecker import signals
from celery_pecker.backoff import Backoff
from celery_pecker.clock import Clock, chance
from celery_pecker.errors import DatabaseUnavailable
from celery_pecker.gate import Gate
from celery_pecker.lease import SECOND, ClockOffset
from celery_pecker.schedules import misfire
from celery_pecker.schedules.agenda import Agenda
from celery_pecker.schedules.model import Delivery, Entry, Misfire, Slot
from celery_pecker.schedules.outgoing import Outgoing
from celery_pecker.schedules.repository import CHUNK, Repository, Row, Wanted, Win

logger = logging.getLogger("celery_pecker.beat")

ROUND = 5.0
"""Seconds between looks at what no wake-up shows: orphaned slots, changed rows."""
TERM = 180.0
"""Seconds for which a declaration counts; renewed after a third of it."""
PENDING_LEASE = 15.0
"""Seconds after which an unconfirmed slot is published again by another replica."""
TRUST = 10.0
"""Seconds, from before the claim was sent, in which its holder may still publish an
at-least-once slot: well before another may (PENDING_LEASE)."""
FORGET = 86_400.0
"""Seconds after which a row that nobody declares is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """A claim whose answer did not come."""

    entries: list[Entry]
    until_us: int


class Service:
    """The scheduler of one replica, without a thread of its own (see loop)."""

    def __init__(
        self,
        entries: Sequence[Entry],
        repository: Repository,
        outgoing: Outgoing,
        gate: Gate,
        *,
        clock: Clock,
        slack: float,
        timeout: float,
        version: str,
        round_every: float = ROUND,
    ) -> None:
        self._entries = entries
        self._repository = repository
        self._outgoing = outgoing
        self._gate = gate
        self._clock = clock
        self._timeout = timeout
        self._version = version
        self._round_every = round_every
        self._agenda = Agenda(entries, slack_us=int(slack * SECOND))
        self._offset = ClockOffset()
        self._broker_backoff = Backoff(first=0.1, most=1.0)
        self._broker_failures = 0
        self._doubt: _Doubt | None = None
        self._cursor = 0
        self._ready = False
        self._next_round: float | None = None
        self._next_declaration = 0.0
        self._kept = [
            entry.name
            for entry in entries
            if entry.policy.delivery is Delivery.AT_LEAST_ONCE
        ]

    def open(self) -> None:
        """Enroll, declare and learn all entries: once, before the first step."""
        names = self._agenda.names
        self._repository.enroll(names)
        self._keep_house()
        for start in range(0, max(1, len(names)), CHUNK):
            self._learn(names[start : start + CHUNK])
        self._next_round = self._clock.monotonic() + self._round_every

    def step(self) -> float:
        """Do all that is due now; return the seconds until there is more."""
        if self._next_round is None:
            self.open()
        self._outgoing.expire(self._now_us())
        self._settle()
        if not self._reach():
            if self._clock.monotonic() >= (self._next_round or 0.0):
                self._round()
            return self._broker_backoff.seconds(self._broker_failures, chance())
        self._outgoing.retry(self._now_us())
        due = self._agenda.due(self._now_us())
        for start in range(0, len(due), CHUNK):
            chunk = due[start : start + CHUNK]
            try:
                self._fire(chunk, len(due))
            except DatabaseUnavailable:
                for entry in due[start:]:
                    self._agenda.again(entry.name, self._now_us())
                raise
        self._settle()
        if self._clock.monotonic() >= (self._next_round or 0.0):
            self._round()
        return self._pause()

    def _reach(self) -> bool:
        if self._outgoing.reachable():
            self._broker_failures = 0
            if not self._ready:
                self._ready = True
                logger.info(
                    "pecker: ready, %d entries, holder %s",
                    len(self._entries),
                    self._repository.holder,
                )
            return True
        self._broker_failures += 1
        return False

    def _fire(self, chunk: list[Entry], due: int) -> None:
        held = set(self._gate.held([entry.name for entry in chunk]))
        now_us = self._now_us()
        wanted: list[Wanted] = []
        for entry in chunk:
            if entry.name in held:
                pause_us = min((entry.period_us or SECOND) // 10, SECOND)
                self._agenda.again(entry.name, now_us + pause_us)
            elif (one := self._want(entry, now_us)) is not None:
                wanted.append(one)
        if not wanted:
            return
        sent = self._clock.monotonic()
        now_us, wins = self._claim(wanted, sent)
        claimed = self._clock.monotonic()
        slots = self._slots(wanted, wins, sent, now_us)
        published = self._outgoing.send(slots, self._now_us()) if slots else 0
        self._tell(
            signals.Woke(
                due=due,
                won=len(wins),
                published=published,
                missed=sum(win.passed for win in wins) + len(wins) - published,
                claim_seconds=claimed - sent,
                publish_seconds=self._clock.monotonic() - claimed,
                lateness_seconds=max(
                    (self._now_us() - min((win.due_us for win in wins), default=0))
                    / SECOND
                    if wins
                    else 0.0,
                    0.0,
                ),
            )
        )

    def _want(self, entry: Entry, now_us: int) -> Wanted | None:
        ahead_us = self._agenda.ahead_us(entry.name)
        recurrence = entry.recurrence
        if recurrence is None:
            return Wanted(entry=entry, ahead_us=ahead_us)
        seen_us = self._agenda.last_us(entry.name)

        def following(last_us: int) -> int:
            return recurrence.next(last_us, now_us)

        passed = 0
        if seen_us > now_us + ahead_us:  # the clock stepped back: count from now
            before_us = None if recurrence.asks else misfire.latest_before(
                following, now_us
            )
            instant_us = before_us or now_us
        else:
            instant_us = following(seen_us)
            if instant_us > now_us:
                self._agenda.again(entry.name, instant_us)
                return None
            if not recurrence.asks:
                instant_us, passed = misfire.choose(
                    following, instant_us, now_us, entry.policy.depth
                )
        return Wanted(
            entry=entry,
            ahead_us=ahead_us,
            instant_us=instant_us,
            seen_us=seen_us,
            passed=passed,
        )

    def _claim(self, wanted: list[Wanted], sent: float) -> tuple[int, list[Win]]:
        until_us = self._offset.now_us(sent + self._timeout)
        try:
            now_us, wins = self._repository.claim(wanted, until_us=until_us)
        except DatabaseUnavailable:
            self._doubt = _Doubt(
                entries=[one.entry for one in wanted], until_us=until_us
            )
            raise
        received = self._clock.monotonic()
        if now_us is not None:
            self._observe(now_us, sent, received)
        return now_us or self._now_us(), wins

    def _slots(
        self, wanted: list[Wanted], wins: list[Win], sent: float, now_us: int
    ) -> list[Slot]:
        """Turn wins into slots to publish; plan the next wake-up of everything."""
        won = {win.nth - 1: win for win in wins}
        trust_us = self._offset.now_us(sent + TRUST)
        slots: list[Slot] = []
        refused: list[Slot] = []
        unknown: list[str] = []
        for nth, one in enumerate(wanted):
            entry, win = one.entry, won.get(nth)
            if win is None:
                if self._agenda.lost(entry.name, now_us):
                    unknown.append(entry.name)
                continue
            self._agenda.won(entry.name, win.due_us, now_us)
            slot = _slot(entry, win, trust_us)
            if misfire.runs(entry.policy, win.due_us, now_us):
                slots.append(slot)
            else:
                refused.append(slot)
        if refused:
            self._outgoing.miss(refused, "found after their grace or deadline")
            self._outgoing.confirmed += [
                (slot.entry.name, slot.epoch)
                for slot in refused
                if slot.entry.policy.delivery is Delivery.AT_LEAST_ONCE
            ]
        if unknown:
            self._learn(unknown)
        return slots

    def _settle(self) -> None:
        """Write what is still owed to the table: doubts, misses, confirmations."""
        doubt = self._doubt
        if doubt is not None:
            self._doubt = None
            try:
                self._resolve(doubt)
            except DatabaseUnavailable:
                self._doubt = doubt
                raise
        outgoing = self._outgoing
        if outgoing.missed:
            self._repository.count_missed(outgoing.missed)
            outgoing.missed.clear()
        if outgoing.confirmed:
            self._repository.confirm(outgoing.confirmed)
            outgoing.confirmed.clear()

    def _resolve(self, doubt: _Doubt) -> None:
        """Find out what a claim did whose answer was lost, by the holder in the row.

        A row that names this process life and a later slot than the one known was won
        by that claim; if there is time left, its slot is published.
        """
        now_us, rows = self._read([entry.name for entry in doubt.entries])
        slots = []
        for entry in doubt.entries:
            row = rows.get(entry.name)
            if row is None:
                continue
            if (
                row.holder == self._repository.holder
                and row.executed_us > self._agenda.last_us(entry.name)
            ):
                win = Win(0, row.executed_us, row.epoch, row.era, 0, stepped=False)
                slots.append(_slot(entry, win, doubt.until_us))
            self._agenda.learn({entry.name: row.executed_us}, now_us)
        if slots:
            logger.info("pecker: %d slots won by a claim without answer", len(slots))
            self._outgoing.send(slots, self._now_us())

    def _round(self) -> None:
        """Look at what no wake-up shows."""
        self._next_round = self._clock.monotonic() + self._round_every
        names = self._agenda.names
        if names:
            if self._cursor >= len(names):
                self._cursor = 0
            self._learn(names[self._cursor : self._cursor + CHUNK])
            self._cursor += CHUNK
        self._keep_house()
        if self._kept:
            self._reclaim()

    def _keep_house(self) -> None:
        now = self._clock.monotonic()
        self._repository.announce(
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._version,
            entries=len(self._entries),
        )
        if now >= self._next_declaration:
            self._next_declaration = now + TERM / 3
            self._repository.declare(self._entries, term=TERM)
            for name in self._repository.forget(after=FORGET):
                logger.warning("pecker: %s was declared by nobody for a day", name)

    def _reclaim(self) -> None:
        sent = self._clock.monotonic()
        orphans = self._repository.reclaim(
            self._kept,
            lease=PENDING_LEASE,
            until_us=self._offset.now_us(sent + self._timeout),
        )
        trust_us = self._offset.now_us(sent + TRUST)
        slots = [
            _slot(
                self._agenda.entry(one.name),
                Win(0, one.due_us, one.epoch, one.era, 0, stepped=False),
                trust_us,
            )
            for one in orphans
        ]
        if slots:
            logger.warning("pecker: %d unconfirmed slots are sent again", len(slots))
            self._outgoing.send(slots, self._now_us())
            self._settle()

    def _learn(self, names: Sequence[str]) -> None:
        now_us, rows = self._read(names)
        missing = [name for name in names if name not in rows]
        if missing:  # removed by hand or forgotten: an entry of ours comes back
            self._repository.enroll(missing)
            now_us, again = self._read(missing)
            rows |= again
        self._agenda.learn(
            {name: row.executed_us for name, row in rows.items()}, now_us
        )

    def _read(self, names: Sequence[str]) -> tuple[int, dict[str, Row]]:
        sent = self._clock.monotonic()
        now_us, rows = self._repository.read(names)
        self._observe(now_us, sent, self._clock.monotonic())
        return now_us, rows

    def _observe(self, now_us: int, sent: float, received: float) -> None:
        stepped = self._offset.observe(now_us, sent=sent, received=received)
        if stepped:
            logger.warning(
                "pecker: the database's clock stepped by %+.3f s", stepped
            )
            signals.clock_stepped.send(signals.ClockStepped(seconds=stepped))
            self._agenda.replan(now_us)

    def _now_us(self) -> int:
        return self._offset.now_us(self._clock.monotonic())

    def _pause(self) -> float:
        now = self._clock.monotonic()
        until = self._next_round or now
        wake_us = self._agenda.next_wake_us()
        if wake_us is not None:
            until = min(until, self._offset.monotonic(wake_us))
        if self._outgoing.waiting:
            until = min(until, now + self._broker_backoff.first)
        return max(until - now, 0.0)

    def _tell(self, woke: signals.Woke) -> None:
        logger.info(
            "pecker: woke, due=%d won=%d published=%d missed=%d"
            " claim=%.1fms publish=%.1fms late=%.1fms",
            woke.due,
            woke.won,
            woke.published,
            woke.missed,
            woke.claim_seconds * 1e3,
            woke.publish_seconds * 1e3,
            woke.lateness_seconds * 1e3,
        )
        signals.woke.send(woke)


def _slot(entry: Entry, win: Win, trust_us: int) -> Slot:
    """Name the slot of a win, and when it is too late to publish it."""
    bounds = [trust_us] if entry.policy.delivery is Delivery.AT_LEAST_ONCE else []
    if entry.policy.timeout_us is not None:
        bounds.append(win.due_us + entry.policy.timeout_us)
    elif entry.period_us is not None and entry.policy.misfire is not Misfire.CATCH_UP:
        bounds.append(win.due_us + entry.period_us)
    return Slot(
        entry=entry,
        due_us=win.due_us,
        era=win.era,
        epoch=win.epoch,
        until_us=min(bounds, default=trust_us),
    )
