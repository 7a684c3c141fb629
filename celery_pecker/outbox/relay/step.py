"""One step of a relay: probe the broker, claim, read, push, delete."""

from __future__ import annotations

import logging
import os
import socket

from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import Clock, chance, new_id
from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.kernel.lease import TrustWindow
from celery_pecker.outbox.relay import batch_plan
from celery_pecker.outbox.relay.batches import (
    MOST,
    Batches,
    Claim,
    RelayBatch,
    RelayTally,
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


class Relay:
    """Delivers one outbox, without a thread of its own (see loop)."""

    def __init__(  # its two seams, time, and three settings
        self,
        batches: Batches,
        publisher: StoredPublisher,
        *,
        clock: Clock,
        hold: float,
        interval: float = INTERVAL,
        name: str = "default",
    ) -> None:
        self._batches = batches
        self._publisher = publisher
        self._clock = clock
        self._trust = hold / 2
        self._interval = interval
        self._name = name
        self._watermark, self._scan = Watermark(), StragglerScan()
        self._backoff = Backoff(first=0.1, most=1.0)
        self._failures = 0
        self._others = 0
        self._upkeep_at = self._reclaim_at = float("-inf")
        self._lost = False
        """Whether a step ended by an error: a batch may be held and not known."""
        self._stopping = False
        self._delivery = Delivery(batches, publisher, clock=clock)
        self._retried = 0
        self._broker_away: str | None = None

    def stop(self) -> None:
        """Claim nothing more. Safe in a signal handler."""
        self._stopping = True

    @property
    def tally(self) -> RelayTally:
        """What it did since it started, and whether it can send."""
        return RelayTally(
            sent=self._delivery.sent,
            retried=self._retried,
            parked=self._delivery.parked,
            broker=self._broker_away,
            rates=self._delivery.rates,
        )

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
        opened = self._clock.monotonic()
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
        before = self._broker_away
        try:
            self._publisher.ensure()
        except BrokerUnavailable as error:
            self._broker_away = " ".join(str(error).split())[:200]
            if before is None:
                self._upkeep_at = float("-inf")
                logger.warning(
                    "pecker: outbox %s: broker %s, nothing claimed: %s",
                    self._name,
                    error.state,
                    error,
                )
            return False
        self._broker_away = None
        if before is not None:
            self._upkeep_at = float("-inf")
            logger.info("pecker: outbox %s: the broker is back", self._name)
        return True

    def _upkeep(self) -> None:
        now = self._clock.monotonic()
        if now - self._upkeep_at < UPKEEP_INTERVAL:
            return
        self._delivery.rate()
        self._others = self._batches.announce(
            host=socket.gethostname(), pid=os.getpid(), tally=self.tally
        )
        self._batches.shorten_holds()
        self._upkeep_at = now

    def _reclaim(self, *, mine: bool) -> RelayBatch | None:
        now = self._clock.monotonic()
        if now - self._reclaim_at < RECLAIM_INTERVAL and not mine:
            return None
        batch = self._batches.reclaim(mine=mine)
        if batch is None:
            self._reclaim_at = now
        else:
            self._retried += len(batch.ids)
        return batch

    def _claim(self) -> tuple[RelayBatch | None, float]:
        """Return a batch, and the seconds until the next step."""
        self._scan_stragglers()
        claim = self._batches.claim(new_id(), above=self._watermark.above)
        if claim.had_turn:
            self._pass(claim)
        if claim.batch is not None and len(claim.batch.ids) == MOST:
            return claim.batch, 0.0
        if not claim.had_turn:
            return claim.batch, self._interval * chance()
        return claim.batch, batch_plan.pause(self._interval, self._others, chance())

    def _pass(self, claim: Claim) -> None:
        """Walk from where this claim has come to, if nothing below can come."""
        self._watermark.chosen(
            claim.above,
            claim.last,
            whole=claim.batch is None and claim.last is None,
            oldest=claim.oldest,
            newest=claim.newest,
        )
        now = self._clock.monotonic()
        if self._watermark.stuck(now):
            self._watermark.writers(self._batches.writers(), now)

    def _scan_stragglers(self) -> None:
        """Lower the watermark to a row that waits below it, if there is one."""
        began = self._clock.monotonic()
        passed = self._watermark.above
        ids = self._scan.slice(passed, began)
        if ids is None or passed is None:
            return
        straggler = self._batches.straggler(*ids)
        now = self._clock.monotonic()
        self._scan.looked(ids[1], passed, seconds=now - began, monotonic=now)
        if straggler is not None:
            self._watermark.lower(straggler - 1)
