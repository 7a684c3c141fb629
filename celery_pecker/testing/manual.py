"""A scheduler that a test turns by hand: a year of schedules in a moment.

The tables are real; only the clock and the broker are the test's. `ManualPecker` reads
an app's ``beat_schedule`` as beat would, and `pass_time` does what a replica would do
in that time, returning the messages that it would have sent::

    with ManualPecker(app, dsn=dsn) as pecker:  # its clock begins with 2026
        [run] = pecker.pass_time(seconds=60)
        assert run.name == "every-minute"
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

from celery import Celery

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import from_us, new_id, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.kernel.gate import Gate, OpenGate
from celery_pecker.schedules.declarations import reading
from celery_pecker.schedules.declarations.beat_schedule import PeckerEntry
from celery_pecker.schedules.declarations.validation import check_beat_schedule
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.sending import Sending
from celery_pecker.schedules.engine.service import Service
from celery_pecker.schedules.engine.stored_sync import Definitions, StoredSync
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.schedules.history.recorder import Recorder

SECOND = 1_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Time that goes on when asked to; the database's clock can be stepped apart."""

    def __init__(self, start: datetime = START) -> None:
        self._elapsed_us = 0
        self._database_us = to_us(start)

    def monotonic(self) -> float:
        """Return the seconds since the test began."""
        return self._elapsed_us / SECOND

    def now(self) -> datetime:
        """Return what the database's clock shows."""
        return from_us(self._database_us)

    def advance_us(self, us: int) -> None:
        """Let time pass, on both clocks."""
        self._elapsed_us += us
        self._database_us += us

    def step(self, seconds: float) -> None:
        """Step the database's clock; no time passes."""
        self._database_us += round(seconds * SECOND)


class RecordingPublisher:
    """Keeps what it was given, or fails in the way that a test asks for."""

    def __init__(self) -> None:
        self.sent: list[Dispatch] = []
        self.tokens: set[str] = set()
        self.failing: BrokerUnavailable | PublishUncertain | None = None
        self.unreachable = False

    def ensure(self) -> None:
        """Connect, unless it is set to be unreachable."""
        if self.unreachable:
            raise BrokerUnavailable

    def prepare(self, entry: object) -> None:
        """Build nothing."""

    def publish(
        self, batch: Sequence[Dispatch], token: str, *, within: float = 0.0
    ) -> None:
        """Keep the batch, once per token."""
        if self.failing is not None:
            raise self.failing
        if token not in self.tokens:
            self.tokens.add(token)
            self.sent += batch


class _History:
    """Writes reports whenever the replica has nothing to do."""

    def __init__(self, recorder: Recorder, database: Database) -> None:
        self._recorder = recorder
        self._database = database
        self.note = recorder.note

    def allow(self, until: float) -> None:
        """Write all there is."""
        while self._recorder.pending():
            self._recorder.flush(self._database, rows=1_000)


class ManualPecker:
    """One replica of an app's scheduler on real tables, turned by hand.

    With ``history`` it keeps so many slots of each entry in pecker_history.
    """

    def __init__(  # noqa: PLR0913  # what a test may choose
        self,
        app: Celery | Sequence[Entry],
        *,
        dsn: str,
        schema: str = "public",
        clock: ManualClock | None = None,
        gate: Gate | None = None,
        pace: UpkeepPace | None = None,
        history: int = 0,
        definitions: Definitions | None = None,
        kind: str = "beat",
        publisher: RecordingPublisher | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.publisher = publisher or RecordingPublisher()
        self._database = Database(
            dsn, schema=schema, timeout=10.0, role="test", now=self.clock.now
        )
        holder = new_id()
        pace = pace or UpkeepPace()
        entries = entries_of(app) if isinstance(app, Celery) else app
        agenda = Agenda(entries, slack_us=int(pace.slack * SECOND))
        self.repository = repository = Repository(self._database, holder, kind=kind)
        self._timekeeper = timekeeper = Timekeeper(self.clock, repository, agenda)
        self.stored: StoredSync | None = None
        if definitions is not None:
            self.stored = StoredSync(
                *(agenda, repository, timekeeper, definitions),
                every=pace.follow_every,
            )
        recording = _History(Recorder(holder, history), self._database)
        pending = PendingWrites(repository, timekeeper, recording)
        self.service = Service(
            agenda,
            repository,
            timekeeper,
            Sending(
                *(self.publisher, pending, timekeeper, self.stored),
                schema=schema,
                holder=str(holder),
                unbuilt={entry.name: entry for entry in entries},
            ),
            pending,
            gate or OpenGate(),
            pace=pace,
            stored=self.stored,
        )
        try:
            self.turn()
        except BaseException:
            self._database.close()
            raise

    def turn(self) -> list[Dispatch]:
        """Do all that is due at this instant; return what was sent."""
        before = len(self.publisher.sent)
        while self.service.step() <= 0:
            pass
        return self.publisher.sent[before:]

    def pass_time(self, seconds: float) -> list[Dispatch]:
        """Do all that a replica would do in that time; return what was sent."""
        end = self.clock.monotonic() + seconds
        before = len(self.publisher.sent)
        while True:
            pause = self.service.step() + 1 / SECOND
            if self.clock.monotonic() + pause > end:
                break
            self.clock.advance_us(round(pause * SECOND))
        left_us = round((end - self.clock.monotonic()) * SECOND)
        self.clock.advance_us(max(left_us, 0))
        self._timekeeper.read(())  # the estimate errs behind: by 0.2 ms a second
        self.service.step()
        return self.publisher.sent[before:]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the connection."""
        self._database.close()


def entries_of(app: Celery) -> list[Entry]:
    """Return the checked entries of an app's ``beat_schedule``."""
    conf = app.conf
    check_beat_schedule(conf.beat_schedule)
    declared = {
        name: (
            options
            if isinstance(options, PeckerEntry)
            else PeckerEntry(**{**options, "name": name, "app": app})
        )
        for name, options in conf.beat_schedule.items()
    }
    return reading.entries(declared, app, conf=conf)
