"""The thread that renews tickets while others run users' code, and ends what hangs.

It has a connection of its own, which it makes when something takes longer than a third
of a lease.

An item may not return, in a thread that cannot be interrupted. Where the pool strikes
code at its deadline this never happens; threads it cannot strike, nor code in C. So the
renewing thread writes in place of the one that hangs: the item failed, its shard goes
on elsewhere, the ticket is free. When the thread wakes it writes nothing and begins
nothing.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_sharding import flow
from celery_sharding.ledger import Ledger, at
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_run import ShardRun
from celery_sharding.runner.step_writer import Stop

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds after its deadline that an item has for its clean-up."""

IDLE = 60.0
"""Seconds after which a thread that has nothing to renew closes its connection."""
GLANCE = 1.0
"""Seconds between two looks at what is renewed: another item runs by then."""
RETRY = 0.5
"""Seconds until the next question where there was no answer; nothing ends this wait,
or each item that begins would ask a broken ledger once more."""


class HungItem:
    """Watches the item in hand of one holding."""

    def __init__(self, app: Any, holding: Holding, *, pool: str) -> None:
        """Watch a holding; ``pool``: Celery's word for it."""
        self._shard_run: ShardRun | None = None
        """The shard that runs now."""
        self._holding = holding
        self._pool = pool
        self._app = app

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
        flow.advance_job(self._app, ledger, holding.hold.job)
        if self._pool == "prefork":
            # the pool replaces it; nothing else ends code that hangs in C
            os.kill(os.getpid(), signal.SIGKILL)


class HoldRenewal:
    """Renews holdings, on a thread that is started when it is first needed."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._process = 0
        self._fresh()

    def _fresh(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._kept: dict[int, tuple[Holding, HungItem]] = {}
        self._thread: threading.Thread | None = None
        self._failed = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)

    @contextmanager
    def keeping(self, holding: Holding, hung_item: HungItem) -> Iterator[None]:
        """Renew the holding until the block ends."""
        if self._process != os.getpid():
            self._fresh()  # a child has neither the thread nor what it kept
        with self._changed:
            self._kept[id(holding)] = (holding, hung_item)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="celery_sharding-tickets", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._kept[id(holding)]

    def _run(self) -> None:
        ledger = at(self._app, role="renewal")
        while True:
            with self._changed:
                kept = [*self._kept.values()]
                if not kept:
                    if not self._changed.wait(IDLE):
                        self._thread = None
                        break
                    continue
                due = min(min(held.renew_at, hung_item.due) for held, hung_item in kept)
                left = min(due - monotonic(), GLANCE)
                if left > 0:
                    self._changed.wait(left)
                    continue
            # A mistake at one holding ends no thread: the others would lose theirs.
            refused = [
                self._failed.call("renewing a hold", True, self._look, ledger, *one)
                for one in kept
            ]
            if any(refused):
                threading.Event().wait(RETRY)
        ledger.close()

    def _look(self, ledger: Ledger, holding: Holding, hung_item: HungItem) -> bool:
        """Do what is due; return whether it is to be retried soon."""
        now = monotonic()
        if hung_item.due <= now:
            return (
                user_code.call_logging_errors(
                    "taking a hung item", hung_item.take, ledger
                )
                is not None
            )
        if holding.renew_at <= now and holding.is_held:
            return holding.renew(ledger) is None
        return not holding.is_held
