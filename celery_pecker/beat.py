"""``celery -A proj beat -S pecker``: Celery's beat with our scheduler in it.

The one awkward subclass. Beat's main thread does nothing but sleep: the scheduler's
loop has a thread of its own, ``tick()`` only returns, and ``close()``, which beat calls
inside its signal handler and once more after it, sets a flag the first time and waits
for the batch in flight the second time.
"""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

import click
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from kombu.utils.imports import symbol_by_name

from celery_pecker import declarations
from celery_pecker.clock import SYSTEM, new_id
from celery_pecker.database import Database
from celery_pecker.errors import Misconfigured, PeckerError
from celery_pecker.gate import Gate, OpenGate
from celery_pecker.ground import stand
from celery_pecker.loop import Loop
from celery_pecker.publisher import Publisher
from celery_pecker.schedules.outgoing import Outgoing
from celery_pecker.schedules.repository import Repository
from celery_pecker.schedules.service import Service
from celery_pecker.schedules.upkeep import Pace
from celery_pecker.settings import Settings

NAP = 0.5
"""Seconds between looks of the main thread at whether the loop refused to start."""
LAST_BATCH = 0.4
"""Seconds that a stop waits for the batch in flight, so that a deploy loses no slot."""


class Refused(Misconfigured, click.ClickException):
    """Beat cannot start like this; said in one line on the command line."""

    def __init__(self, message: str) -> None:
        click.ClickException.__init__(self, message)

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class BeatLog(logging.Filter):
    """What Celery's beat says, made bearable.

    It tells of each entry at INFO: a thousand a second would flood the log (the slow
    lane is Celery's own code; the line per wake-up is ours). And it tells of a refusal
    with a traceback of its own insides, where one line says all.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the line per entry for those who log at DEBUG."""
        if record.exc_info and isinstance(record.exc_info[1], Refused):
            record.msg, record.args = "%s", (str(record.exc_info[1]),)
            record.exc_info = None
        per_entry = str(record.msg).startswith("Scheduler: Sending due task")
        return not per_entry or logging.getLogger(record.name).isEnabledFor(
            logging.DEBUG
        )


class PeckerScheduler(Scheduler):
    """As many of these as one likes, on as many hosts: each slot is won once."""

    Entry = declarations.PeckerEntry

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._loop: Loop | None = None
        self._closed = False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Check everything that can be checked without I/O, then start the loop."""
        logging.getLogger("celery.beat").addFilter(BeatLog())
        try:
            settings = Settings.read(self.app.conf, main=self.app.main)
            declarations.refuse_twins(self.app)
            declarations.check_given(self.app.conf.beat_schedule)
            self.merge_inplace(self.app.conf.beat_schedule)
            self.install_default_entries(self.schedule)
            self._loop = self._compose(settings)
        except Misconfigured as error:
            raise Refused(str(error)) from error
        self._loop.start()

    def _compose(self, settings: Settings) -> Loop:
        entries = declarations.entries(self.schedule, self.app, conf=self.app.conf)
        holder = new_id()
        database = Database(
            settings.dsn, schema=settings.schema, timeout=settings.database_timeout
        )
        publisher = Publisher(self.app, self, timeout=settings.broker_timeout)
        gate = _gate(settings.gate, self.app) if settings.gate else OpenGate()
        service = Service(
            entries,
            Repository(database, holder),
            Outgoing(
                _Prepared(publisher, [*self.schedule.values()]),
                schema=settings.schema,
                holder=str(holder),
                skew=settings.clock_skew,
            ),
            gate,
            clock=SYSTEM,
            pace=Pace(slack=settings.clock_slack, timeout=settings.database_timeout),
        )

        def step() -> float:
            if not database.connected:
                stand(database, app=settings.app)
            return service.step()

        def leave() -> None:
            publisher.close()
            database.close()

        self._service = service
        return Loop(step, name="pecker", clock=SYSTEM, leave=leave)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Return how long beat's main thread may sleep; raise what the loop refused.

        A loop that ended untold ends the process too: silently alive is worse.
        """
        if self._loop is not None and self._loop.failure is not None:
            raise Refused(str(self._loop.failure)) from self._loop.failure
        if self._loop is not None and self._loop.dead:
            message = "the scheduler's thread has ended; see the log above"
            raise PeckerError(message)
        return NAP

    def should_sync(self) -> bool:
        """There is nothing to sync: the table is the memory."""
        return False

    def reserve(self, entry: ScheduleEntry) -> ScheduleEntry:  # type: ignore[override]  # the stubs name another class than Celery's code
        """The claim has reserved it."""
        return entry

    def close(self) -> None:
        """Stop the loop; safe inside a signal handler, idempotent."""
        again, self._closed = self._closed, True
        if self._loop is None:
            return
        self._service.stop()
        self._loop.stop()
        if again or threading.current_thread() is not threading.main_thread():
            self._loop.join(LAST_BATCH)

    @property
    def info(self) -> str:
        """Beat's banner line; made before the schedule is set up."""
        schema = self.app.conf.get("pecker_schema") or "public"
        return f"       . pecker -> schema {schema}"


def _gate(path: str, app: Celery) -> Gate:
    """Return the gate that the setting names."""
    try:
        make = symbol_by_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        message = (
            f"pecker_gate is {path!r}, which cannot be imported ({error}); allowed is"
            " the dotted path of a callable that takes the app and returns a gate"
        )
        raise Misconfigured(message) from error
    gate: Gate = make(app)
    return gate


def _settle_heap() -> None:
    """Leave all that was made at start out of later garbage collections.

    Celery and a thousand prepared messages are a heap that a full collection walks
    for 60 ms, and the next one always came in the middle of some wake-up: every tenth
    slot or so was that much late.
    """
    gc.collect()
    gc.freeze()


class _Prepared:
    """A publisher that builds all messages when it first has a connection."""

    def __init__(self, publisher: Publisher, entries: list[ScheduleEntry]) -> None:
        self._publisher = publisher
        self._unprepared = entries
        self.publish = publisher.publish

    def ensure(self) -> None:
        """Be connected, with every message built that can be built before a claim."""
        self._publisher.ensure()
        while self._unprepared:
            self._publisher.prepare(self._unprepared[-1])
            self._unprepared.pop()
            if not self._unprepared:
                _settle_heap()
