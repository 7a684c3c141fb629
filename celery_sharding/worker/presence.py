"""Report a live worker to the ledger, and the dead children of its pool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from celery.utils.nodenames import worker_direct

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger import Ledger, at
from celery_sharding.runner.executor import Executor
from celery_sharding.worker.children import Children

logger = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two heartbeats."""
GLANCE = 0.25
"""Seconds between two looks at the children of the pool."""
STOP_TIMEOUT = 10.0
"""Seconds that a stopping worker waits for its last report to be written."""


class Presence:
    """A thread that reports this worker to the ledger."""

    def __init__(self, worker: Any, executor: Executor) -> None:
        self._worker = worker
        self._executor = executor
        self._children = Children(worker.app, executor)
        self._over = threading.Event()
        self._failed = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)
        self._thread = threading.Thread(
            target=self._run, name="celery_sharding-presence", daemon=True
        )

    def start(self) -> None:
        """Free what an earlier life of this worker held, and start the thread.

        Before the first message is taken: names of this life begin alike.
        """
        ledger = at(self._worker.app, role="executor")
        self._report(ledger, self._children.report_former)
        ledger.close()
        self._thread.start()

    def stop(self) -> None:
        """Remove the worker from the ledger, unless PostgreSQL is away."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        ledger = at(self._worker.app, role="executor")
        beat = monotonic()
        while not self._over.is_set():
            if monotonic() >= beat:
                beat = monotonic() + BEAT
                self._report(ledger, self._seen)
            # A pool that cannot be looked at must not end the heartbeats: the others
            # would take over the shards of a worker that runs.
            look = self._failed.call(
                "looking at the pool", False, self._children.look, self._worker.pool
            )
            if look:
                self._failed.call("replacing processes", None, self._replace)
                self._report(ledger, self._children.report)
            self._over.wait(GLANCE)
        self._report(ledger, self._gone)
        ledger.close()

    def _report(self, ledger: Ledger, what: Callable[[Ledger], None]) -> None:
        """Report to the ledger; an error does not end the thread, which retries."""

        def report() -> None:
            try:
                what(ledger)
            except DatabaseUnavailable as error:
                logger.debug("sharding: the ledger does not answer: %s", error)

        user_code.survive("reporting this executor", report)

    def _replace(self) -> None:
        """Have the pool replace dead processes now: its own look may be 5 s away."""
        hub = getattr(self._worker, "hub", None)
        maintain = getattr(self._worker.pool, "maintain_pool", None)
        if hub is not None and maintain is not None:
            hub.call_soon(maintain)

    def _seen(self, ledger: Ledger) -> None:
        # Before it writes: a heartbeat later than now is what shows the step.
        if step := ledger.upkeep.follow_clock():
            logger.warning(
                "sharding: PostgreSQL's clock was set back by %.0f s: leases and"
                " messages are set back with it",
                step,
            )
        pool = self._worker.pool
        slots = getattr(pool, "num_processes", None) or self._worker.concurrency
        consumed = [*self._worker.app.amqp.queues.consume_from]
        direct = worker_direct(self._executor.hostname).name
        ledger.upkeep.seen(
            self._executor.hostname,
            int(slots),
            direct if direct in consumed else None,
            queues=consumed,
        )

    def _gone(self, ledger: Ledger) -> None:
        ledger.upkeep.gone(self._executor.hostname)
