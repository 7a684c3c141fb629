"""One step of a scheduler: what is due → claim → publish → what comes next.

Pure decisions are made elsewhere (grid, misfire, agenda); this is the doing, in order.
The statement of a claim is the only point where replicas meet. What happens if the
process dies or freezes, or an answer is lost, at each line stands in
docs/explanation/delivery.md.

Claims whose answer did not come, and what became of them.

The server may have run the claim before the connection broke. The row tells: it names
this process life as its holder, under an epoch later than its last known win.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import chance
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.gate import Gate, held_by
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine import claims, misfire
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.claims import slot_of
from celery_pecker.schedules.engine.model import ClaimedSlot, ClaimRequest, Entry, Slot
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.engine.requested_runs import RequestedRuns
from celery_pecker.schedules.engine.sending import Sending
from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.engine.upkeep import Upkeep, UpkeepPace
from celery_pecker.schedules.history.report import Report


@dataclass(eq=False, repr=False)
class UnansweredClaims:
    """At most one claim is in doubt: none is made before it is resolved."""

    agenda: Agenda
    timekeeper: Timekeeper
    holder: uuid.UUID

    def __post_init__(self) -> None:
        self._doubt: tuple[list[Entry], int] | None = None

    def note(self, entries: Sequence[Entry], sent_us: int) -> None:
        """Remember a claim of these, sent at that time, whose answer did not come."""
        self._doubt = [*entries], sent_us

    def resolve(self) -> list[Slot]:
        """Return the slots that it won, to be published if there is time left.

        They are known as won from here on: another claim without answer must not find
        the same epoch new again. A requested run raises the epoch and
        leaves the slot: that is no win.
        """
        if self._doubt is None:
            return []
        entries, sent_us = self._doubt
        now_us, rows = self.timekeeper.read([one.name for one in entries])
        self._doubt = None
        slots: list[Slot] = []
        for entry in entries:
            row = rows.get(entry.name)
            if row is None:
                continue
            epoch, due_us = self.agenda.last_win(entry.name)
            won = row.epoch > epoch and row.executed_us != due_us
            if row.holder == self.holder and won:
                win = ClaimedSlot(0, row.executed_us, row.epoch, row.era, 0, row.paused)
                self.agenda.won(entry.name, win, now_us)
                if not row.paused:
                    slots.append(slot_of(entry, win, sent_us))
            else:
                self.agenda.update({entry.name: row}, now_us)
        return slots


logger = logging.getLogger("celery_pecker.beat")
Requests = list[ClaimRequest]

PREPARE_TIMEOUT = 0.1
"""Seconds of one step that building messages may take: a stop waits for them."""
PREPARE_MARGIN = 0.02
"""Seconds before the next slot in which nothing more is built."""
MOST_ATTEMPTS = 100
"""An at-least-once slot that the broker refuses so often is given up and counted."""


@dataclass(eq=False, repr=False)
class Service:
    """The scheduler of one replica, without a thread of its own (see loop).

    Its parts `sending` and `stored` have the same timekeeper.
    """

    agenda: Agenda
    repository: Repository
    timekeeper: Timekeeper
    sending: Sending
    pending: PendingWrites
    gate: Gate
    _: KW_ONLY
    pace: UpkeepPace
    stored: StoredSync | None = None
    held: Callable[[], Collection[str]] = frozenset

    def __post_init__(self) -> None:
        rows = self.agenda, self.repository, self.timekeeper
        self._upkeep = Upkeep(*rows, self.pace, self.stored, self.held)
        self._requests = RequestedRuns(
            *(*rows, self.sending, self.pending),
            every=self.pace.round_every / 5,  # people wait for them
            timeout=self.pace.timeout,
            recall=self.stored.recall if self.stored is not None else lambda _: None,
        )
        self._backoff = Backoff(first=0.1, most=1.0)
        self._failures = 0
        self._unanswered = UnansweredClaims(
            self.agenda, self.timekeeper, self.repository.holder
        )
        self.ready = False
        """Whether all entries are read, and the broker has been reached."""
        self._stopping = False

    def stop(self) -> None:
        """Claim nothing more. Safe in a signal handler."""
        self._stopping = True

    @property
    def entries(self) -> int:
        """How many entries there are, of code and stored."""
        return len(self.agenda)

    @property
    def unreadable(self) -> int:
        """How many stored schedules cannot be read here."""
        return 0 if self.stored is None else self.stored.unreadable

    def step(self) -> float:
        """Do all that is due now; return the seconds until there is more."""
        if self._upkeep.next is None:
            self._upkeep.begin()
        self.sending.expire(self.timekeeper.now_us())
        self._settle()
        deliverable = self._deliverable()
        if deliverable:
            self._failures = 0
            self._fire_all()
        else:
            self._failures += 1
        if self.stored is not None and self.stored.due:
            self.stored.step()
        if self._requests.due:
            self._answer(deliverable=deliverable)
        if self._upkeep.due:
            self._round(deliverable=deliverable)
        return self._prepare(self._pause()) if deliverable else self._pause()

    def _deliverable(self) -> bool:
        """Return whether what is claimed now could be sent now.

        A replica that cannot reach the broker claims nothing: the slots are left to
        those that can, or to the misfire policy once the broker is back.
        """
        if not self.sending.reachable():
            return False
        loaded = self.stored is None or self.stored.loaded
        if not self.ready and loaded:
            self.ready = True
            holder = self.repository.holder
            logger.info("pecker: ready, %d entries, holder %s", self.entries, holder)
        self.sending.retry(self.timekeeper.now_us())
        self.pending.report()
        return not self.sending.waiting

    def _fire_all(self) -> None:
        due = self.agenda.due(self.timekeeper.now_us())
        for start in range(0, len(due), CHUNK):
            try:
                if self._stopping:
                    break
                self._fire(due[start : start + CHUNK], len(due))
                self._settle()  # at once: unconfirmed slots are sent again by others
            except BaseException:
                # Whatever it was: an entry off the agenda would never wake again.
                for entry in due[start:]:
                    self.agenda.wake_at(entry.name, self.timekeeper.now_us())
                raise

    def _fire(self, chunk: list[Entry], due: int) -> None:
        """Claim what is due and not held back, publish what was won."""
        names = [entry.name for entry in chunk]
        held = held_by(self.gate, names)
        unready = self.sending.prepare([name for name in names if name not in held])
        if unready is None:
            for name in names:
                self.agenda.wake_at(name, self.timekeeper.now_us())
            return
        now_us = self.timekeeper.now_us()
        requests: Requests = []
        for entry in chunk:
            if entry.name in unready or not self.agenda.current(entry):
                continue  # edited or removed meanwhile: it is planned anew, or gone
            if entry.name in held:
                slot = self.agenda.following(entry.name, now_us)
                self.pending.held(entry.name, slot, now_us)
                pause_us = min((entry.period_us or SECOND) // 10, SECOND)
                self.agenda.wake_at(entry.name, now_us + pause_us)
                continue
            one = claims.claim_request(
                entry,
                seen_us=self.agenda.last_us(entry.name),
                ahead_us=self.agenda.ahead_us(entry.name),
                now_us=now_us,
            )
            if isinstance(one, ClaimRequest):
                requests.append(one)
            else:
                self.agenda.wake_at(entry.name, one)
        if not requests:
            return
        sent = self.timekeeper.now()
        now_us, taken = self._claim(requests, sent)
        claimed = self.timekeeper.now()
        slots, unknown = self._sort(
            requests, taken, self.timekeeper.at_us(sent), now_us
        )
        before = self.pending.missed
        published = self.sending.send(slots, self.timekeeper.now_us(), prepared=True)
        missed = self.pending.missed - before
        # Nothing may come between claim and publish; the rest has time now.
        self.timekeeper.handle_clock_step()
        self.pending.woke(due, requests, taken, (published, missed), (sent, claimed))
        if unknown:
            self.timekeeper.refresh(unknown)

    def _claim(self, requests: Requests, sent: float) -> tuple[int, list[ClaimedSlot]]:
        try:
            now_us, taken = self.repository.claim(
                requests, until_us=self.timekeeper.at_us(sent + self.pace.timeout)
            )
        except DatabaseUnavailable:
            self._unanswered.note(
                [r.entry for r in requests], self.timekeeper.at_us(sent)
            )
            raise
        if now_us is not None:
            self.timekeeper.observe(now_us, sent=sent)
        return now_us or self.timekeeper.now_us(), taken

    def _sort(
        self, requests: Requests, taken: list[ClaimedSlot], sent_us: int, now_us: int
    ) -> tuple[list[Slot], list[str]]:
        """Return the slots to publish, and names whose row must be read."""
        won = {win.nth - 1: win for win in taken}
        slots, refused, paused = list[Slot](), list[Slot](), list[Slot]()
        unknown: list[str] = []
        for nth, one in enumerate(requests):
            entry, win = one.entry, won.get(nth)
            if win is None:
                if self.agenda.lost(entry.name, now_us):
                    unknown.append(entry.name)
                continue
            self.agenda.won(entry.name, win, now_us)
            runs = misfire.runs(entry.policy, win.due_us, now_us)
            which = paused if win.paused else slots if runs else refused
            which.append(claims.slot_of(entry, win, sent_us))
        if refused:
            self.sending.refuse(refused, "found after their grace or deadline")
        if paused:
            self.pending.note(paused, Report.PAUSED)
        return slots, unknown

    def _settle(self) -> None:
        """Write what is still owed to the table: doubts, misses, confirmations."""
        self.pending.report()
        slots = self._unanswered.resolve()
        if slots:
            logger.info("pecker: %d slots won by a claim without answer", len(slots))
            self.sending.send(slots, self.timekeeper.now_us())
            self.pending.report()
        self.pending.write()

    def _answer(self, *, deliverable: bool) -> None:
        """Send what people asked for."""
        if not deliverable or self._stopping:
            self._requests.postpone()
            return
        if self._requests.step():
            self._settle()

    def _round(self, *, deliverable: bool) -> None:
        sent = self.timekeeper.now()
        orphans = self._upkeep.step(reclaim=deliverable)
        if orphans:
            logger.warning("pecker: %d unconfirmed slots are sent again", len(orphans))
            now_us, sent_us = self.timekeeper.now_us(), self.timekeeper.at_us(sent)
            slots: list[Slot] = []
            over: list[Slot] = []
            for one in orphans:
                slot = claims.orphan_slot(self.agenda.entry(one.name), one, sent_us)
                tired = one.attempt > MOST_ATTEMPTS
                runs = not tired and claims.still_runs(slot, now_us)
                (slots if runs else over).append(slot)
            why = f"their grace is over, or they were refused {MOST_ATTEMPTS} times"
            self.sending.refuse(over, why)
            self.sending.send(slots, self.timekeeper.now_us())
            self._settle()
        self._upkeep.refresh_tables()

    def _prepare(self, idle: float) -> float:
        """Use idle seconds to build messages; return those that are left."""
        within = min(idle - PREPARE_MARGIN, PREPARE_TIMEOUT)
        if within <= 0:
            return idle
        begun = self.timekeeper.now()
        if self.sending.prepare_more(within=within):
            return 0.0
        return max(idle - (self.timekeeper.now() - begun), 0.0)

    def _pause(self) -> float:
        now = self.timekeeper.now()
        until = self._upkeep.next or now
        if self._failures or self.sending.waiting:
            attempt = max(1, self._failures)
            until = min(until, now + self._backoff.seconds(attempt, chance()))
        else:
            wake_us = self.agenda.next_wake_us()
            if wake_us is not None:
                until = min(until, self.timekeeper.until(wake_us))
            until = min(until, self._requests.next)
        if self.stored is not None:
            until = min(until, self.stored.next)
        self.pending.idle(until)
        return max(until - now, 0.0)
