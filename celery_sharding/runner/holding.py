"""A ticket in the hands of this process: what is written under it, and how long.

Two threads use it: the one that runs shards, and one that renews it while an
item takes long. Each has a ledger of its own.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from threading import Event, RLock

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.lease import TrustWindow
from celery_sharding import pace
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, HoldReply, Shard, Stage, Step, Turn
from celery_sharding.process import ended_by_signal
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.runner.step_writer import Stop

logger = logging.getLogger(__name__)

KEPT = 500
"""Steps of ended shards that wait for the next write, at most."""
KEPT_BYTES = 1_000_000
"""Of their results, at most."""
RETRY_INTERVAL = 0.2
"""Seconds between two tries at a write, while PostgreSQL is away."""
PARTS = 3
"""Renewals in a lease: one may be lost, or come late."""


@dataclass(eq=False, repr=False)
class Holding:
    """A held ticket. It is the `StepWriter` of the shards that run under it."""

    ledger: Ledger
    turn: Turn
    executor: ShardWorker
    lease: float
    opened: float
    """The monotonic moment before the ticket was asked for."""

    def __post_init__(self) -> None:
        self.hold = self.turn.hold
        self.hostname = self.executor.hostname
        self.turning = RLock()
        """Held while a thread writes, or decides that another writes no more."""
        self.away = False
        """Whether the items of a shard are in a store that does not answer."""
        self.stop: Stop | None = Stop.SHUTDOWN if self.executor.stopping else None
        """Of the last reply: why no item is to be begun, or None."""
        self._flush = min(pace.FLUSH, self.lease / 2)
        self._due = self.opened + self._flush
        self._trust = TrustWindow(opened=self.opened, seconds=self.lease)
        self._kept: list[Step] = []
        self._bytes = 0
        self._waiting = Event()
        self._closing = False
        """Whether to check if the layer is closed."""
        self._behind: list[Shard] = []
        """Claimed shards that wait for the one that runs."""
        self._give_back_at = inf
        """The monotonic moment from which they are given back."""

    # As the writer of shards

    @property
    def due(self) -> float:
        """The monotonic moment from which a running shard is to write."""
        return self._due

    def write(self, step: Step) -> Stop | None:
        """Take a step; that of an ended shard may wait for the next write."""
        with self.turning:
            self._kept.append(step)
            self._bytes += len(step.results or b"") + len(step.result or b"")
            full = len(self._kept) >= KEPT or self._bytes >= KEPT_BYTES
            if step.status.ended and not full and monotonic() < self._due:
                return self.stop
            return self.flush()

    def flush(self) -> Stop | None:
        """Write what was kept; return why to stop, or None.

        PostgreSQL may be away for a while: the same is retried for as long as
        no other process can have the ticket. Then nothing more is written.
        """
        with self.turning:
            self._free_waiting()
            while self._kept and self.stop is not Stop.LOST:
                sent = monotonic()
                if self._trust.closed(sent):
                    self._lose("its lease was over before it could write")
                    break
                try:
                    reply = self.ledger.shards.write(
                        self.hold, self._kept, lease=self.lease
                    )
                except DatabaseUnavailable as error:
                    logger.warning("sharding: %s waits for the ledger: %s", self, error)
                    self._waiting.wait(RETRY_INTERVAL)
                    continue
                self._written(reply)
                self.apply_reply(reply, sent)
            self._due = monotonic() + self._flush
            return self.stop

    def abandon(self) -> list[Step]:
        """Write nothing more from this thread; return what another is to write."""
        steps = [*self._kept, *(untouched(record) for record in self._behind)]
        self._lose("an item hangs")
        return steps

    def _written(self, reply: HoldReply) -> None:
        ended = any(step.status.ended for step in self._kept)
        self._closing = self._closing or (ended and reply.layer_open == 0)
        if reply.lost:
            self._lose(f"shards {reply.lost} are another's")
        self._kept, self._bytes = [], 0

    # Claimed shards, one after the other

    def line_up(self, records: Sequence[Shard], *, give_back_at: float) -> None:
        """Let claimed shards wait for their turn, until that monotonic moment."""
        self._behind = [*records]
        self._give_back_at = give_back_at

    def take_next(self) -> Shard | None:
        """Return the shard whose turn it is, or None if no shard waits any more.

        It is noted as the one that runs, for the process that sees this one die.
        """
        if not self._behind:
            return None
        record = self._behind.pop(0)
        self.executor.take_up(self.hold.job, record.shard)
        return record

    def put_back(self, record: Shard) -> None:
        """Free that shard as it was, and stop: its items cannot be read now."""
        with self.turning:
            self._behind.insert(0, record)
            self.away = True

    def give_back(self) -> None:
        """Free with the next write what still waits."""
        self._give_back_at = 0.0

    def take_closing(self) -> bool:
        """Return, once, whether to check if the layer is closed."""
        closing, self._closing = self._closing, False
        return closing

    def _free_waiting(self) -> None:
        """Free shards that wait behind a slow one."""
        over = self.away or self.stop is not None or monotonic() >= self._give_back_at
        if self._behind and over:
            self._kept += [untouched(record) for record in self._behind]
            self._behind = []

    # Replies of the ledger

    def apply_reply(self, reply: HoldReply, sent: float) -> None:
        """Take the ledger's reply to a question that was sent at that moment."""
        if not reply.held:
            self._lose("another has it")
            return
        if self.stop is Stop.LOST:
            return
        self._trust = TrustWindow(opened=sent, seconds=self.lease)
        if reply.stage is not Stage.SHARDING:
            self.stop = Stop.OVER
        elif reply.paused:
            self.stop = Stop.PAUSED
        elif self.hold.ticket > reply.concurrency:
            self.stop = Stop.CROWDED
        elif self.executor.stopping or ended_by_signal():
            self.stop = Stop.SHUTDOWN
        else:
            # what was paused for a moment goes on
            self.stop = None
        if self.stop is not None:
            self._due = 0.0

    def renewed(self, sent: float) -> None:
        """Note that the ledger renewed the lease with a question sent then."""
        self._trust = TrustWindow(opened=sent, seconds=self.lease)

    def renew(self, ledger: Ledger) -> HoldReply | None:
        """Renew the lease; return the ledger's reply, None: no answer."""
        sent = monotonic()
        try:
            reply = ledger.tickets.renew(self.hold, self.lease)
        except DatabaseUnavailable:
            return None
        self.apply_reply(reply, sent)
        return reply

    @property
    def renew_at(self) -> float:
        """The monotonic moment at which the lease is to be renewed."""
        return self._trust.opened + self.lease / PARTS

    @property
    def is_held(self) -> bool:
        """Whether no other process can have the ticket."""
        return self.stop is not Stop.LOST and not self._trust.closed(monotonic())

    def _lose(self, why: str) -> None:
        if self.stop is not Stop.LOST:
            logger.warning("sharding: %s is lost: %s", self, why)
        self.stop = Stop.LOST
        self._due = 0.0
        self._kept, self._bytes, self._behind = [], 0, []

    def __str__(self) -> str:
        """Return its name for the log."""
        hold = self.hold
        return f"ticket {hold.ticket} ({hold.seq}) of job {hold.job}"


def untouched(record: Shard) -> Step:
    """Return the step that gives a claimed shard back as it was."""
    return Step(
        shard=record.shard,
        cursor=record.cursor,
        ahead=record.ahead,
        done=record.done,
        failed=record.failed,
        returned=record.returned,
        status=Code.WAITING,
    )
