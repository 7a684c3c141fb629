"""One thread per process reports what was counted, and reads the answers.

Every 100 ms it reads the meter, sends what was counted since as samples with their age,
and puts what the store answers into an immutable snapshot that others read without
I/O: no thread of a user's, and no loop of a worker's, ever waits for Redis.

While the store is away samples are kept for ten seconds, older ones are dropped and
counted; it is retried five to ten times a second, so that all is well within
a second of its return. A report whose answer was lost is sent once more under its
number, and counts once.

A web process reports by two lines, and ends by itself::

    from throttle.exchange.process import report

    report(app)                       # a Celery app, or Settings

    `Exchanger`  the thread
    `Backlog`    samples that the store has not confirmed: pure
    ``process``  the one exchange of a process that is no worker, also after a fork
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from celery_pecker.kernel.clock import SYSTEM, Monotonic, chance, monotonic, new_tag
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.admission import Accounts
from throttle.errors import ThrottleError
from throttle.model import (
    NOTHING,
    STALE,
    TICK,
    Amount,
    DatabaseReport,
    ExchangeAnswer,
    Holding,
    Reading,
    Report,
    Sample,
    Seen,
    Store,
)
from throttle.settings import Settings
from throttle.store.wire import KEPT, REPORT_SPAN, covered


class Snapshot(NamedTuple):
    """The last answer, and how old it is."""

    answer: ExchangeAnswer | None = None
    """None: there was none yet."""
    at: float = 0.0
    """When it was asked for, on the monotonic clock: before it was sent, so that
    nothing in the answer is older than we think."""
    away: bool = True
    """Whether the last try failed. An answer that came before stays good until it is
    stale."""

    def fresh(self, now: float) -> bool:
        """Return whether the answer may be acted upon at that moment."""
        return self.answer is not None and now - self.at <= STALE

    def seen(self, database: str) -> Seen | None:
        """Return what was last heard of the database, however old."""
        return None if self.answer is None else self.answer.databases.get(database)


class Counted(NamedTuple):
    """What was counted of a database by the end of a tick."""

    ended: float
    database: str
    amount: Amount
    span: float

    def sample(self, now: float) -> Sample:
        """Return it as a report has it."""
        return Sample(max(now - self.ended, 0.0), self.amount, self.span)


class HeldBatch(NamedTuple):
    """What goes into one report."""

    number: int
    """0: there are no samples."""
    samples: Mapping[str, tuple[Sample, ...]]


class Backlog:
    """Counts in the order they came; those last sent stay together until confirmed.

    If the answer to a report is lost it is not known whether it counted. So the very
    same counts are resent under the same number, and newer ones wait for the next: the
    store skips a number that it knows. What is more than a report may cover waits, too.
    """

    def __init__(self) -> None:
        self._waiting: deque[Counted] = deque()
        self._sent: deque[Counted] = deque()
        self._number = 0
        self.dropped = 0.0
        """Operations that grew too old before the store confirmed them."""

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting)

    def add(self, ended: float, span: float, databases: Mapping[str, Amount]) -> None:
        """Keep what was counted in the `span` seconds before, for a report.

        What is older than the windows of the store is dropped.
        """
        self._waiting.extend(
            Counted(ended, name, amount, span)
            for name, amount in databases.items()
            if amount != NOTHING
        )
        for counts in (self._sent, self._waiting):
            while counts and ended - counts[0].ended > KEPT:
                self.dropped += counts.popleft().amount.operations

    def batch(self, now: float) -> HeldBatch:
        """Return what to send: what was sent and not confirmed, else the rest."""
        if not self._sent:
            if not self._waiting:
                return HeldBatch(0, {})
            room = REPORT_SPAN
            while self._waiting:
                room -= covered(self._waiting[0].span)
                if room < 0:
                    break
                self._sent.append(self._waiting.popleft())
            self._number += 1
        samples: dict[str, list[Sample]] = {}
        for counted in self._sent:
            samples.setdefault(counted.database, []).append(counted.sample(now))
        return HeldBatch(self._number, {name: tuple(s) for name, s in samples.items()})

    def confirm(self) -> None:
        """Forget what was sent last: it has been counted."""
        self._sent.clear()


logger = logging.getLogger("throttle")

PAUSE = (0.1, 0.2)
"""Seconds between two tries while the store is away, by chance: a thousand processes
must not come back at one moment."""
KEEPS = (60.0, 90.0)
"""Seconds between two times that what tasks cost is kept for workers to come."""
KEPT_FOR = 7 * 86_400.0
"""Seconds."""
LAST = 1e-9
"""An instant that has passed, and not 0: what it knows is kept as a worker ends."""
SILENT = 2.0
"""Seconds without a turn after which the thread is taken for dead."""


@dataclass(eq=False, repr=False)
class Exchanger:
    """Tells the store what a process counts, and keeps what it answers.

    One per process, and the only reader of its meter. It runs from `start` to `stop`;
    in a child of a fork it does not run. `snapshot` may be read on any thread.

    Args:
        settings: Whose limits are asked about in each report.
        store: Where to report. Its opener closes it, after `stop`.
        read: Returns what was counted since it was read last.
        accounts: A worker's, called with each reading and each answer.
        name: For people.
        holdings: What a worker says of itself, by database; asked on this thread at
            each report. Without it the process holds no share.
        on_answer: Called on this thread after each answer and each failure; must not
            block.
        clock: The monotonic clock.
    """

    settings: Settings
    store: Store
    read: Callable[[], Reading]
    accounts: Accounts | None = None
    _: KW_ONLY
    name: str
    holdings: Callable[[], Mapping[str, Holding]] | None = None
    on_answer: Callable[[], None] | None = None
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self.holder = new_tag()
        """The id of this process in the store: of this life only."""
        self.snapshot = Snapshot()
        self.failures = 0
        """Tries that failed."""
        self.lost = 0
        """Counts for which the meter had no place."""
        self._databases = tuple(self.settings.limits)
        self._once = OnceAMinute(logger, prefix="throttle: ", clock=self.clock)
        self._backlog = Backlog()
        self._answer_came = True
        self._not_before = 0.0
        self._keep_at = 0.0
        """When what tasks cost is kept next; 0: it was not asked for yet."""
        self._read = self.clock()
        self._due, self._turned = self._read, -SILENT
        self._answered = threading.Event()
        # A mistake in a turn ends no thread: it is logged, `alive` turns false if it
        # stays, what was answered grows stale and the policy holds.
        self._loop = Loop(
            self._step, name="throttle-exchange", clock=SYSTEM, leave=self._leave
        )

    @property
    def alive(self) -> bool:
        """Return whether the thread had a turn lately. The store may be away."""
        return not self._loop.stopping and self.clock() - self._turned < SILENT

    @property
    def dropped(self) -> float:
        """Return operations in no sum: no place in the meter, or ten seconds old."""
        return self.lost + self._backlog.dropped

    def start(self) -> None:
        """Start the thread, once."""
        self._turned = self.clock()
        self._loop.start()

    def stop(self, timeout: float = TICK) -> None:
        """Report what was counted a last time, without shares; then end the thread.

        Waits for that at most `timeout` seconds.
        """
        self._loop.stop()
        self._loop.join(timeout)

    def wait(self, timeout: float) -> bool:
        """Wait for the first answer, that many seconds; say whether there is one."""
        return self._answered.wait(timeout)

    def _step(self) -> float:
        self.turn()
        # A slow turn delays the next one, it does not pile up turns.
        now = self.clock()
        self._due = max(self._due + TICK, now)
        return self._due - now

    def _leave(self) -> None:
        self.holdings = None
        self._not_before = 0.0
        self._keep_at = min(self._keep_at, LAST)
        self._once.call("the last exchange", None, self.turn)

    def turn(self) -> None:
        """Read the meter, and tell the store unless it has just failed."""
        now = self.clock()
        reading = self.read()
        self.lost += reading.dropped
        self._backlog.add(now, now - self._read, reading.databases)
        self._read = now
        if self.accounts is not None:
            self.accounts.observe(reading, now)
        if now >= self._not_before:
            self._tell(now)
        self._turned = self.clock()

    def _tell(self, now: float) -> None:
        batch = self._backlog.batch(now)
        holdings = self.holdings() if self.holdings is not None else {}
        report = Report(
            holder=self.holder,
            name=self.name,
            number=batch.number,
            answered=self._answer_came,
            databases={
                database: DatabaseReport(
                    samples=batch.samples.get(database, ()),
                    holding=holdings.get(database),
                )
                for database in {*self._databases, *batch.samples, *holdings}
            },
        )
        sent = self.clock()
        answer: ExchangeAnswer | None = None
        try:
            answer = self.store.exchange(report)
        except ThrottleError as error:
            self._failed(error)
        else:
            if not self._answer_came:
                logger.info("throttle: the store answers now, after an outage")
            self._answer_came = True
            self._backlog.confirm()
            self.snapshot = Snapshot(answer, sent, away=False)
            self._answered.set()
        if self.accounts is not None:
            self.accounts.update(answer, sent)
            if answer is not None and now >= self._keep_at:
                self._keep(self.accounts, now)
        if self.on_answer is not None:
            self.on_answer()

    def _keep(self, accounts: Accounts, now: float) -> None:
        """Take what others have learned, at first; then add what this process knows."""
        first = not self._keep_at
        least, most = KEEPS
        self._keep_at = now + least + (most - least) * chance()
        try:
            for database in self._databases:
                before = self.store.recall(database)
                if first:
                    accounts.recall(database, before)
                elif (text := accounts.remember(database, before)) != before:
                    self.store.keep(database, text, KEPT_FOR)
        except ThrottleError as error:
            self._once.warning("costs", "%s; what tasks cost is not kept", error)

    def _failed(self, error: ThrottleError) -> None:
        self.failures += 1
        self._answer_came = False
        self.snapshot = self.snapshot._replace(away=True)
        least, most = PAUSE
        self._not_before = self.clock() + least + (most - least) * chance()
        self._once.warning(
            "the store", "%s; until it is back each limit's policy decides", error
        )
