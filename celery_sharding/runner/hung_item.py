"""An item that does not return, in a thread that cannot be interrupted.

Where the pool strikes code at its deadline this never happens; threads it cannot
strike, nor code in C. So the renewing thread writes in place of the one that hangs: the
item failed, its shard goes on elsewhere, the ticket is free. When the thread wakes it
writes nothing and begins nothing.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from celery_pecker.kernel.clock import monotonic
from celery_sharding.ledger import Ledger
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_run import ShardRun
from celery_sharding.runner.step_writer import Stop

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds after its deadline that an item has for its clean-up."""


class HungItem:
    """Watches the item in hand of one holding."""

    def __init__(
        self, holding: Holding, *, pool: str, then: Callable[[Ledger], None]
    ) -> None:
        """Watch a holding; ``then`` is called once the ticket is free."""
        self._shard_run: ShardRun | None = None
        """The shard that runs now."""
        self._holding = holding
        self._pool = pool
        self._then = then

    @contextmanager
    def watching(self, shard_run: ShardRun) -> Iterator[None]:
        """Watch the items of a shard while the block runs it."""
        self._shard_run = shard_run
        try:
            yield
        finally:
            self._shard_run = None

    @property
    def due(self) -> float:
        """The monotonic moment from which the item in hand counts as hung."""
        shard_run = self._shard_run
        if shard_run is None or shard_run.stop is Stop.LOST:
            return inf
        return shard_run.limits.budget.at + GRACE

    def take(self, ledger: Ledger) -> None:
        """Fail the current item and free its shard, if it still hangs."""
        shard_run, holding = self._shard_run, self._holding
        if shard_run is None:
            return
        with holding.turning:
            if (
                self.due > monotonic()
                or self._shard_run is not shard_run
                or not holding.is_held
            ):
                return
            steps = shard_run.abandon()
            steps += holding.abandon()
        logger.error(
            "sharding: an item of shard %s of %s hangs; it failed, the rest goes on",
            shard_run.record.shard,
            holding,
        )
        ledger.shards.write(holding.hold, steps, lease=holding.lease)
        ledger.tickets.set_idle(holding.hold)
        self._then(ledger)
        if self._pool == "prefork":
            # the pool replaces it; nothing else ends code that hangs in C
            os.kill(os.getpid(), signal.SIGKILL)
