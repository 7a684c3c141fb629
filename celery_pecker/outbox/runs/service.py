"""Start and end runs, in bounded time, over connections that threads share.

And know of each outbox of a worker which of them has the row of a message.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, chance, pause
from celery_pecker.kernel.connections import Connections
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs import holds
from celery_pecker.outbox.runs.header import RowRef
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import GONE, Rows, StartedRun

logger = logging.getLogger("celery_pecker.outbox")

_END_TIMEOUT = 30.0
"""Seconds for which the end of a run that succeeded is tried to be written."""
_FAIL_TIMEOUT = 5.0
"""The same of one that failed: it is due again after its hold in any case."""

_QUEUE = 30.0
"""Seconds for which a thread waits for a connection of the process: one that waits for
others of this worker has no answer from the database that could be late."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that has started here. Moments are of the monotonic clock."""

    begun: StartedRun
    ends: float
    """By when the run must have ended."""
    held: float
    """Until when no other run of the row starts; counted from before the question."""
    pool: str = ""
    """How its deadline is enforced, if not as the worker's pool does."""


class RunService:
    """The runs of one table, for one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._holds = holds.Holds(settings.outbox_backoff, holds.LONGEST)
        self._connections = Connections(settings, role="outbox")
        self._backoff = Backoff(first=0.1, most=2.0)

    @property
    def attempts(self) -> int:
        """After how many attempts a row is parked whose task says nothing."""
        return self._settings.outbox_attempts

    def start(self, ref: RowRef, options: Options) -> tuple[Started | None, str]:
        """Start the run of a message, or say why not.

        Raises:
            DatabaseUnavailable: there is no answer: it must not run. The row may have
                counted the attempt; it is due again after its hold.
        """

        def start(rows: Rows) -> tuple[Started | None, str]:
            sent = SYSTEM.monotonic()
            begun, verdict = rows.start(ref, options)
            return None if begun is None else self.started(
                begun, options, sent
            ), verdict

        return self._ask(start, _QUEUE)

    def started(
        self, begun: StartedRun, options: Options, sent: float, pool: str = ""
    ) -> Started:
        """Return how long a run may take that was asked for at that moment (I2)."""
        return Started(
            begun=begun,
            ends=sent + holds.budget(begun.hold, options.timeout),
            held=sent + begun.hold,
            pool=pool,
        )

    def read(self, begun: StartedRun) -> Message | None:
        """Return the message of a run; None: the row is not this run's any more."""
        stored = self._ask(lambda rows: rows.read([(begun.id, begun.epoch)]), _QUEUE)
        return stored[0] if stored else None

    def has(self, ref: RowRef) -> bool:
        """Return whether this table has the row of a message as it was sent.

        Raises:
            DatabaseUnavailable: there is no answer.
        """
        stored = self._ask(lambda rows: rows.read([(ref.id, ref.epoch)]), _QUEUE)
        return [one.task_id for one in stored] == [ref.task_id]

    def end(self, started: Started, *, emergency: bool) -> bool:
        """Delete the row of a run that succeeded; whether it is known to be gone.

        Tried again while the database is away, until the hold is over.
        """
        return self._persist(
            started,
            "end",
            _END_TIMEOUT,
            lambda rows: rows.end(started.begun, emergency=emergency),
        )

    def fail(self, started: Started, error: str, *, park: bool) -> bool:
        """Keep the error of a run that failed; whether that is written."""
        begun = started.begun
        return self._persist(
            started,
            "failure",
            _FAIL_TIMEOUT,
            lambda rows: rows.fail(begun.id, begun.epoch, error, park=park),
        )

    def park(self, ref: RowRef, task: str, why: str) -> bool:
        """Park a row whose message is not run; without an answer it is sent again.

        One that was run meanwhile stays: Celery calls revoked, too, what it ended.
        False: that, or this table has not got the row.
        """

        def park(rows: Rows) -> bool:
            return rows.fail(ref.id, ref.epoch, why, park=True, task_id=ref.task_id)

        try:
            if not self._ask(park, _FAIL_TIMEOUT):
                return False
            why = f"parked: {why}"
        except PeckerError as error:
            why = f"not parked, and is sent again after its hold ({why}): {error}"
        logger.warning("pecker: the recorded task %s (row %d) is %s", task, ref.id, why)
        return True

    def count_failed_start(self, ref: RowRef, task: str, why: str) -> bool:
        """Count an attempt that no worker could begin; the last one parks the row.

        Another worker may have the task: it is due again after its hold.
        False: this table has not got the row.
        """
        options = Options(timeout=None, attempts=self.attempts)
        try:
            started, verdict = self.start(ref, options)
            if verdict == GONE:
                return False
            if started is not None:
                last = holds.is_last(started.begun.attempt, self.attempts)
                self.fail(started, why, park=last)
                verdict = "parked" if last else "due again after its hold"
        except PeckerError as error:
            verdict = f"due again, and no attempt may be counted: {error}"
        logger.warning(
            "pecker: the recorded task %s (row %d) cannot be run here (%s): %s",
            *(task, ref.id, why, verdict),
        )
        return True

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def rows(self, database: object) -> Rows:
        """Return the statements over a connection."""
        return Rows(database, self._holds, log=self._settings.outbox_history)  # type: ignore[arg-type]

    def _ask(self, do: Callable[[Rows], Answer], queue: float) -> Answer:
        timeout = self._settings.database_timeout
        with self._connections.connection(timeout, queue=queue) as database:
            return do(self.rows(database))

    def _persist(
        self, started: Started, what: str, timeout: float, do: Callable[[Rows], bool]
    ) -> bool:
        until = min(started.held, SYSTEM.monotonic() + timeout)
        failures, uncertain = 0, False
        while True:
            try:
                changed = self._ask(do, max(until - SYSTEM.monotonic(), 0.0))
            except DatabaseUnavailable as error:
                failures += 1
                uncertain = uncertain or error.asked
                wait = self._backoff.seconds(failures, chance())
                if SYSTEM.monotonic() + wait >= until:
                    logger.warning(
                        "pecker: the %s of a recorded task (row %d, attempt %d) could"
                        " not be written: %s",
                        *(what, started.begun.id, started.begun.attempt, error),
                    )
                    return False
                pause(wait)
                continue
            if not changed and not uncertain:
                logger.warning(
                    "pecker: the %s of a recorded task (row %d, attempt %d) is left"
                    " out: a later run has the row, or it was changed",
                    *(what, started.begun.id, started.begun.attempt),
                )
            return changed or uncertain


UNKNOWN = (
    "its outbox {!r} is not known to this worker, and none that is has its row; it"
    " is sent again after its hold, for a worker whose code makes that outbox"
)
DEFAULT = "default"
"""The name of the outbox of an app that names none."""


@dataclass
class Services:
    """What starts and ends runs, of each outbox that is known here.

    Args:
        settings: gives the settings of an outbox by its name; None: it is not known.
        names: gives the names of those that are known.
    """

    settings: Callable[[str], Settings | None]
    names: Callable[[], Iterable[str]]
    _services: dict[str, RunService] = field(default_factory=dict)

    def named(self, outbox: str) -> RunService | None:
        """Return the service of an outbox; None: it is not known here."""
        if outbox not in self._services:
            settings = self.settings(outbox)
            if settings is None:
                return None
            self._services.setdefault(outbox, RunService(settings))
        return self._services[outbox]

    def of(self, ref: RowRef, task: str) -> Iterator[RunService]:
        """Yield the services that may have a message's row, until one has it.

        The first is the one of that name, unasked. If there is none, or it has not got
        the row, the row is looked for in the other tables, which asks PostgreSQL: the
        outbox has another name here.

        Raises:
            PeckerError: none has it, and one of them did not answer.
        """
        known = self.named(ref.outbox)
        if known is not None:
            yield known
        silent: PeckerError | None = None
        for name in self.names():
            service = self.named(name)
            if service is None or service is known:
                continue
            try:
                has_it = service.has(ref)
            except PeckerError as error:
                silent = error
                continue
            if has_it:
                logger.warning(
                    "pecker: the recorded task %s[%s] is of outbox %r, which has the"
                    " name %r here: give it one name everywhere",
                    *(task, ref.task_id, ref.outbox, name),
                )
                yield service
                return
        if silent is not None:
            raise silent

    def close(self) -> None:
        """Let go of the databases."""
        for service in self._services.values():
            service.close()
