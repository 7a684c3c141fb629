"""Run the statements of modes 1 and 2 against one table."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import NamedTuple

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.runs.header import RowRef
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.options import Options

MAX_PUSHES = 1_000
"""Rows of one claim (I9)."""
MAX_ERROR = 2_000
"""Characters of an error that are kept."""
MAX_MENDED = 10_000
GONE = "gone"
"""The verdict on a message whose row is not in this table."""


class Pushed(NamedTuple):
    """A row whose message is to be sent, and the epoch that the message names."""

    id: int
    epoch: int
    size: int
    """Bytes of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that has started."""

    id: int
    attempt: int
    """From 1."""
    epoch: int
    """The fencing token."""
    hold: float
    """Seconds, from the statement on."""
    task: str = ""


class ClaimReply(NamedTuple):
    """The answer of a worker's claim."""

    begun: list[StartedRun]
    parked: list[tuple[int, str]]
    """Ids and tasks of rows whose last attempt has not reported its end."""


@dataclass
class Rows:
    """The rows of one table that stay until their task has succeeded."""

    database: Database
    holds: Holds
    _: KW_ONLY
    log: int = 10_000

    def claim_pushes(
        self, *, only: Sequence[str] | None = None, most: int = MAX_PUSHES
    ) -> list[Pushed]:
        """Take rows for which a message is due; a lost race is an empty answer."""
        rows = self.database.run(
            "claim_outbox_pushes",
            only=None if only is None else list(only),
            most=most,
            holds=self.holds.seconds,
        )
        return [Pushed(*row) for row in rows]

    def read(self, claimed: Sequence[tuple[int, int]]) -> list[Message]:
        """Return the messages, by id, of rows that still have their claim's epoch."""
        rows = self.database.run(
            "read_outbox_runs",
            ids=[one[0] for one in claimed],
            epochs=[one[1] for one in claimed],
        )
        return sorted(map(Message.stored, rows), key=attrgetter("id"))

    def start(self, ref: RowRef, options: Options) -> tuple[StartedRun | None, str]:
        """Start the run of a message, or say why not: gone, repeated or parked."""
        [(attempt, raised, hold, verdict)] = self.database.run(
            "start_outbox_run",
            id=ref.id,
            epoch=ref.epoch,
            task_id=ref.task_id,
            floor=options.floor,
            last=options.attempts,
            holds=self.holds.seconds,
        )
        if attempt is None:
            return None, str(verdict)
        run = StartedRun(id=ref.id, attempt=attempt, epoch=raised, hold=hold)
        return run, str(verdict)

    def take(self, tasks: Sequence[tuple[str, Options]], most: int) -> ClaimReply:
        """Start the runs of rows of mode 2 that are due."""
        rows = self.database.run(
            "take_outbox_runs",
            tasks=[name for name, _ in tasks],
            lasts=[options.attempts for _, options in tasks],
            floors=[options.floor for _, options in tasks],
            most=most,
            holds=self.holds.seconds,
        )
        begun, parked = [], []
        for row, task, attempt, epoch, hold, over in rows:
            if over:
                parked.append((row, task))
            else:
                begun.append(
                    StartedRun(
                        id=row, attempt=attempt, epoch=epoch, hold=hold, task=task
                    )
                )
        return ClaimReply(begun, parked)

    def end(self, begun: StartedRun, *, emergency: bool) -> bool:
        """Delete the row of a run that succeeded; False: it is not this run's."""
        [(gone,)] = self.database.run(
            "end_outbox_run",
            id=begun.id,
            epoch=begun.epoch,
            emergency=emergency,
            kept=self.log,
        )
        return self.database.one_row("end_outbox_run", gone)

    def fail(
        self,
        row: int,
        epoch: int,
        error: str,
        *,
        park: bool,
        task_id: str | None = None,
    ) -> bool:
        """Keep the error of what failed; False: a later run has the row.

        A caller that has only a message of the row passes its task id.
        """
        return self.database.change_one(
            "fail_outbox_run",
            id=row,
            epoch=epoch,
            task_id=task_id,
            error=error[:MAX_ERROR].replace("\0", ""),
            park=park,
        )

    def mend(self, slack: float) -> int:
        """Shorten holds that began before the clock stepped back by more than `slack`.

        Return how many there were; call again while there are some.
        """
        return self.database.change(
            "shorten_outbox_run_holds", slack=slack, most=MAX_MENDED
        )
