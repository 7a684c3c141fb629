"""The alarms of one process: a thread that looks, and one that sends."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from celery import Celery

from celery_pecker.alarms.kinds import INTERVAL, Held, Shut
from celery_pecker.alarms.model import Finding, StoredSlot
from celery_pecker.alarms.rules import LOGGED, SETTING, read_rules
from celery_pecker.alarms.step import Evaluator, Rounds, Sending
from celery_pecker.alarms.tables import Tables
from celery_pecker.alarms.targets import read_targets
from celery_pecker.kernel import user_code
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, from_us, new_id, pause, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.lease import SLACK
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.schedules.declarations import reading
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.engine import misfire
from celery_pecker.schedules.engine.bounds import following
from celery_pecker.schedules.engine.model import (
    NEVER_US,
    Entry,
    Recurrence,
    StoredSchedule,
)
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.upkeep import TERM
from celery_pecker.schedules.recurrence import RETRY
from celery_pecker.schedules.stored.timings import Timings

logger = logging.getLogger("celery_pecker.alarms")

READ_AT_ONCE = 200
"""Definitions that one look reads: a millisecond each, until they run or change."""
SECOND = 1_000_000
REMEMBERED = 3_600.0
"""Seconds, and at most twice as many, for which an unused instant is kept."""


class StoredInstants:
    """The first slots after the last ones, worked out once for each last slot."""

    def __init__(self, app: Celery, rows: Repository) -> None:
        self._timings = Timings(app)
        self._rows = rows
        self._known: dict[str, tuple[StoredSlot, int]] = {}
        self._before = self._known
        """Those of the hour before: what is not asked for in this one goes with it."""
        self._since = datetime.min.replace(tzinfo=UTC)

    def __call__(
        self, slots: Sequence[StoredSlot], now: datetime
    ) -> Mapping[str, datetime]:
        """Return the first slot after the last one, by entry, where it is known."""
        if abs((now - self._since).total_seconds()) > REMEMBERED:
            self._before, self._known, self._since = self._known, {}, now
        new = [slot for slot in slots if self._of(slot) is None][:READ_AT_ONCE]
        if new:
            page = self._rows.read_schedules([slot.name for slot in new])
            rows = {row.name: row for row in page.rows}
            for slot in new:
                row = rows.get(slot.name)
                if row is not None and row.version == slot.version:
                    self._work_out(slot, row, to_us(now))
        instants = {slot.name: self._of(slot) for slot in slots}
        return {
            name: from_us(due_us)
            for name, due_us in instants.items()
            if due_us is not None and due_us < NEVER_US
        }

    def _of(self, slot: StoredSlot) -> int | None:
        known = self._known.get(slot.name) or self._before.get(slot.name)
        if known is None or known[0] != slot:
            return None
        self._known[slot.name] = known
        return known[1]

    def _work_out(self, slot: StoredSlot, row: StoredSchedule, now_us: int) -> None:
        due_us, error = user_code.tried(self._due, slot, row, now_us)
        if error is not None or due_us is None:  # it is parked, and counted there
            due_us = NEVER_US
        # A schedule that raises answers with a moment at which it is to be asked again.
        if due_us != max(slot.executed_us, now_us) + int(RETRY * SECOND):
            self._known[slot.name] = slot, due_us

    def _due(self, slot: StoredSlot, row: StoredSchedule, now_us: int) -> int:
        with user_code.no_exit(f"stored schedule {row.name!r}"):
            entry = self._timings.of_row(row)
            if entry.recurrence is None or entry.recurrence.is_polled:
                return NEVER_US
            return following(entry, slot.executed_us, now_us)(slot.executed_us)


class Parked:
    """Asks each outbox that is not in the tables of the alarms. For one thread."""

    def __init__(self, outboxes: Mapping[str, Settings], own: Settings) -> None:
        others = {
            name: one
            for name, one in outboxes.items()
            if (one.dsn, one.schema) != (own.dsn, own.schema)
        }
        self.databases = {
            name: Database.of(one, role="alarms") for name, one in others.items()
        }
        self._queries = ParallelQueries(
            {name: _question(name, one) for name, one in self.databases.items()}
        )
        self._silent = OnceAMinute(logger, prefix="pecker: ", level=logging.WARNING)

    def __call__(self) -> tuple[list[Finding], bool]:
        """Return what is parked, and whether every outbox has answered."""
        findings: list[Finding] = []
        whole = True
        for name, answer in self._queries.ask().items():
            if isinstance(answer, PeckerError):
                whole = False
                self._silent.warning(name, "no look at the outbox %s: %s", name, answer)
            else:
                findings += answer
        return findings, whole


def _question(name: str, database: Database) -> Callable[[], list[Finding]]:
    tables = Tables(database, new_id())

    def ask() -> list[Finding]:
        try:
            rows = tables.find("find_outbox_parked", count=1)
        finally:
            database.close()  # the next look may be another replica's
        return [replace(one, subject=f"{one.subject} in {name}") for one in rows]

    return ask


COMPUTED_AT_ONCE = 200
"""Crontabs whose last instant is worked out in one look: a millisecond each."""
FAILED = Backoff(first=1.0, most=30.0)
WARM_UP = 5.0
"""Seconds from the start to the first look, where there is a gate: until it was asked
it is not known what it holds, and that rang as silent."""


class Alarms:
    """Looks and sends for one process; nothing where the settings take out all rules.

    Raises:
        Misconfigured: a rule or a target is wrong.

    """

    def __init__(  # noqa: PLR0913  # what it has to know of its process
        self,
        app: Celery,
        beat_schedule: BeatSchedule,
        settings: Settings,
        *,
        kind: str,
        shut: Shut | None = None,
        held: Held = frozenset,
        outboxes: Mapping[str, Settings] | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._ready = ready
        rules = read_rules({**LOGGED, **(settings.alarms or {})}, settings.alarms_to)
        targets = read_targets(settings.alarms_to or {})
        for rule in rules:
            if rule.kind.asks_gate and shut is None:
                raise Misconfigured(
                    f"{SETTING}[{rule.name!r}] looks for {rule.kind.name}, and"
                    f" pecker_gate is {settings.gate!r}; allowed: a gate that has a"
                    " method shut(), such as 'throttle.gate.schedules:gate'"
                )
        own = [Database.of(settings, role=role) for role in ("alarms", "alarms-send")]
        parked = Parked(outboxes or {}, settings)
        self.databases = [*own, *parked.databases.values()]
        holder = new_id()
        tables, sending = (Tables(one, holder) for one in own)
        self._interval = min([INTERVAL, *(rule.interval for rule in rules)])
        self._rounds = Rounds(
            rules,
            Evaluator(
                tables=tables,
                slack=SLACK,
                term=TERM,
                instants=Instants(app, beat_schedule),
                stored=StoredInstants(app, Repository(self.databases[0], holder)),
                declares=beat_schedule.schedule.__contains__,
                shut=shut or frozenset,
                held=held,
                parked=parked,
            ),
            interval=self._interval,
        )
        self._sending = Sending(sending, targets, flower_url=settings.flower_url)
        self._loops = [
            Loop(
                step,
                name=f"pecker-{kind}-alarms{name}",
                leave=partial(self._leave, nth),
                backoff=FAILED,
                may_end=True,
            )
            for nth, (step, name) in enumerate(
                ((self._look, ""), (self._send, "-send"))
            )
        ]
        self._rules = bool(rules)
        self._first = 0.0
        abandon_in_forks(self)

    def __bool__(self) -> bool:
        """Return whether anything may ring."""
        return self._rules

    def start(self) -> None:
        """Start the threads."""
        if self._settings.gate is not None:
            self._first = SYSTEM.monotonic() + WARM_UP
        if self._rules:
            for loop in self._loops:
                loop.start()

    def stop(self) -> None:
        """Take nothing more, and leave. Safe in a signal handler, idempotent."""
        for loop in self._loops:
            loop.stop()

    def join(self, timeout: float) -> bool:
        """Wait for what is in hand, at most so long; return whether both left."""
        if not self._rules:
            return True
        until = SYSTEM.monotonic() + timeout
        left = [loop.join(max(until - SYSTEM.monotonic(), 0.0)) for loop in self._loops]
        return all(left)

    def abandon(self) -> None:
        """Drop the connections in a fork: they are the parent's."""
        for database in self.databases:
            database.abandon()

    def _leave(self, nth: int) -> None:
        """Close what a loop used, on its thread; log an unrequested end."""
        self.databases[nth].close()
        if (failure := self._loops[nth].failure) is not None:
            logger.error("pecker: no alarm rings from this process: %s", failure)

    def _wait(self, nth: int) -> None:
        """Wait until a replica has turned: what refuses that is said there, once."""
        while not self._ready() and not self._loops[nth].stopping:
            pause(UNREADY)

    def _look(self) -> float:
        self._wait(0)
        early = self._first - SYSTEM.monotonic()
        if early > 0:
            return early
        database = self.databases[0]
        if not database.connected:
            check_schema(database, app=self._settings.app)
        if self._rounds.step():
            self._loops[1].wake()
        if self._interval >= INTERVAL:
            database.close()  # one more for each scheduler would stand idle
        return self._interval

    def _send(self) -> float:
        """Send what waits, and let the connection go: there is seldom anything."""
        self._wait(1)
        while not self._loops[1].stopping:
            if not self._sending.step():
                self.databases[1].close()
                return IDLE
        return 0.0


UNREADY = 0.1
"""Seconds between two looks whether a replica has turned."""
IDLE = 3_600.0
"""Seconds; a look that sees notices wakes the thread."""


class Instants:
    """The last instants of entries that are no grid, by schedules of its own.

    Those of the scheduler are in use on its thread. Read when first asked.
    """

    def __init__(self, app: Celery, beat_schedule: BeatSchedule) -> None:
        self._app = app
        self._beat_schedule = beat_schedule
        self._entries: list[Entry] | None = None
        self._known: dict[str, tuple[int, int]] = {}
        self._next = 0
        """The entry with which the next look begins: all get their turn."""

    def __call__(self, until: datetime) -> Mapping[str, datetime]:
        """Return the last instant before a moment, by entry."""
        if self._entries is None:
            self._entries = [
                entry
                for entry in reading.entries(
                    self._beat_schedule.schedule, self._app, conf=self._app.conf
                )
                if entry.recurrence is not None and not entry.recurrence.is_polled
            ]
        until_us, left = to_us(until), COMPUTED_AT_ONCE
        for nth in range(self._next, self._next + len(self._entries)):
            entry = self._entries[nth % len(self._entries)]
            known = self._known.get(entry.name)
            if known is not None and known[0] <= until_us < known[1]:
                continue
            if not left:
                self._next = nth % len(self._entries)
                break
            left -= 1
            assert entry.recurrence is not None  # noqa: S101  # chosen above
            self._known[entry.name] = around(entry.recurrence, until_us)
        return {
            name: from_us(last_us)
            for name, (last_us, _) in self._known.items()
            if 0 < last_us <= until_us
        }


def around(recurrence: Recurrence, until_us: int) -> tuple[int, int]:
    """Return the last instant not after a moment (0: there is none) and the next."""

    def following(last_us: int) -> int:
        return recurrence.next(last_us, until_us)

    last_us = misfire.latest_before(following, until_us) or 0
    return last_us, following(last_us or until_us)


def closed_databases_of(gate: Any) -> Shut | None:
    """Return what a gate says of what it lets nothing through to.

    None where it has no method ``shut()``: it holds entries back and says no more.
    """
    shut = getattr(gate, "shut", None)
    if not callable(shut):
        return None

    def ask() -> Collection[str]:
        answer = shut()
        if not isinstance(answer, Collection) or isinstance(answer, str):
            raise TypeError(
                f"shut() returned {answer!r}; allowed is a collection of names"
            )
        return answer

    return ask
