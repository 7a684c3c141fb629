"""One step of a relay: probe the broker, claim, read, push, delete."""

import logging
import os
import socket
from dataclasses import KW_ONLY, InitVar, dataclass, field

from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, Clock, chance, new_id
from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.kernel.lease import TrustWindow
from celery_pecker.outbox.relay import batch_plan
from celery_pecker.outbox.relay.batches import (
    MOST,
    Batches,
    Claim,
    RelayBatch,
)
from celery_pecker.outbox.relay.delivery import Delivery
from celery_pecker.outbox.relay.watermark import StragglerScan, Watermark

logger = logging.getLogger("celery_pecker.outbox")

INTERVAL = 0.05
"""Seconds between two looks at the table: a look that finds nothing takes 0.2 ms of
PostgreSQL. Relays share them: together they look about twice as often as one alone."""
UPKEEP_INTERVAL = 5.0
"""Seconds between two signs of life."""
RECLAIM_INTERVAL = 1.0
"""Seconds between two looks for batches whose relay is gone."""


@dataclass
class Relay:
    """Delivers one outbox, without a thread of its own (see loop)."""

    batches: Batches
    publisher: StoredPublisher
    _: KW_ONLY
    clock: Clock = SYSTEM
    hold: InitVar[float]
    interval: float = INTERVAL
    name: str = "default"
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, most=1.0))
    _failures: int = 0
    _others: int = 0
    _lost: bool = False
    """Whether a step ended by an error: a batch may be held and not known."""
    _stopping: bool = False

    def __post_init__(self, hold: float) -> None:
        self._trust = hold / 2
        self._watermark, self._scan = Watermark(), StragglerScan()
        self._upkeep_at = self._reclaim_at = float("-inf")
        self._delivery = Delivery(self.batches, self.publisher, clock=self.clock)
        self.tally, self.lately = self._delivery.tally, self._delivery.lately

    def stop(self) -> None:
        """Claim nothing more. Safe in a signal handler."""
        self._stopping = True

    def reconnected(self) -> None:
        """Forget what was known of the database: it may be another one."""
        self._watermark, self._scan = Watermark(), StragglerScan()

    def step(self) -> float:
        """Deliver one batch; return the seconds until the next step."""
        if self._stopping:
            return 0.0
        reachable = self._reachable()
        self._upkeep()
        self._delivery.settle()
        if not reachable:
            self._failures += 1
            return self._backoff.seconds(self._failures, chance())
        self._failures = 0
        opened = self.clock.monotonic()
        lost, self._lost = self._lost, True
        batch, rest = self._reclaim(mine=lost), 0.0
        if batch is None:
            batch, rest = self._claim()
        if batch is not None:
            trust = TrustWindow(opened=opened, seconds=self._trust)
            self._delivery.deliver(batch, trust)
        self._lost = False
        return rest

    def _reachable(self) -> bool:
        """Probe the broker: what could not be sent is not claimed."""
        before = self.tally.broker
        try:
            self.publisher.ensure()
        except BrokerUnavailable as error:
            self.tally.broker = " ".join(str(error).split())[:200]
            if before is None:
                self._upkeep_at = float("-inf")
                logger.warning(
                    "pecker: outbox %s: broker %s, nothing claimed: %s",
                    self.name,
                    error.state,
                    error,
                )
            return False
        self.tally.broker = None
        if before is not None:
            self._upkeep_at = float("-inf")
            logger.info("pecker: outbox %s: the broker is back", self.name)
        return True

    def _upkeep(self) -> None:
        now = self.clock.monotonic()
        if now - self._upkeep_at < UPKEEP_INTERVAL:
            return
        self._delivery.rate()
        self._others = self.batches.announce(
            host=socket.gethostname(), pid=os.getpid(), tally=self.tally
        )
        # Those from before the database's clock stepped back.
        self.batches.database.change("shorten_outbox_holds")
        self._upkeep_at = now

    def _reclaim(self, *, mine: bool) -> RelayBatch | None:
        now = self.clock.monotonic()
        if now - self._reclaim_at < RECLAIM_INTERVAL and not mine:
            return None
        batch = self.batches.reclaim(mine=mine)
        if batch is None:
            self._reclaim_at = now
        else:
            self.tally.retried += len(batch.ids)
        return batch

    def _claim(self) -> tuple[RelayBatch | None, float]:
        """Return a batch, and the seconds until the next step."""
        self._scan_stragglers()
        claim = self.batches.claim(new_id(), above=self._watermark.above)
        if claim.had_turn:
            self._pass(claim)
        if claim.batch is not None and len(claim.batch.ids) == MOST:
            return claim.batch, 0.0
        if not claim.had_turn:
            return claim.batch, self.interval * chance()
        return claim.batch, batch_plan.pause(self.interval, self._others, chance())

    def _pass(self, claim: Claim) -> None:
        """Walk from where this claim has come to, if nothing below can come."""
        self._watermark.chosen(
            claim.above,
            claim.last,
            whole=claim.batch is None and claim.last is None,
            oldest=claim.oldest,
            newest=claim.newest,
        )
        now = self.clock.monotonic()
        if self._watermark.stuck(now):
            self._watermark.writers(self.batches.writers(), now)

    def _scan_stragglers(self) -> None:
        """Lower the watermark to a row that waits below it, if there is one."""
        began = self.clock.monotonic()
        passed = self._watermark.above
        ids = self._scan.slice(passed, began)
        if ids is None or passed is None:
            return
        straggler = self.batches.straggler(*ids)
        now = self.clock.monotonic()
        self._scan.looked(ids[1], passed, seconds=now - began, monotonic=now)
        if straggler is not None:
            self._watermark.lower(straggler - 1)
