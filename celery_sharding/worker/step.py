"""A worker as an executor of shards, and what the ledger knows of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from celery.utils.nodenames import worker_direct

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.pools import GLANCE, PartStep, is_cold, kind_of, spawns
from celery_sharding.errors import DatabaseUnavailable, Misconfigured
from celery_sharding.ledger import Ledger, at
from celery_sharding.runner.executor import Executor, register_process
from celery_sharding.worker.children import Children

logger = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two heartbeats."""
STOP_TIMEOUT = 10.0
"""Seconds that a stopping worker waits for its last report to be written."""


class Presence:
    """A thread that reports this worker to the ledger."""

    def __init__(self, worker: Any, executor: Executor) -> None:
        self._worker = worker
        self._executor = executor
        self._children = Children(worker.app, executor)
        self._over = threading.Event()
        self._refusal = ""
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

    def leave(self) -> None:
        """Begin no further item: pass tickets on to other workers.

        Pools that run tasks on the worker's own thread stop it only after them.
        """
        self._executor.stop()

    def join(self, *, patient: bool) -> None:  # noqa: ARG002  # its tasks have ended
        """Remove the worker from the ledger, unless PostgreSQL is away."""
        self.leave()
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        ledger = at(self._worker.app, role="executor")
        beat = monotonic()
        while not self._over.is_set():
            if is_cold():
                # The signal handler that ends the pool waits for it before it says so.
                self._executor.stop()
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
            except Misconfigured as error:
                if str(error) != self._refusal:  # once, not with each heartbeat
                    self._refusal = str(error)
                    text = "sharding: others cannot know that this worker runs: %s"
                    logger.warning(text, error)

        user_code.call_logging_errors("reporting this executor", report)

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
        ledger.upkeep.record_worker(
            self._executor.hostname,
            int(slots),
            direct if direct in consumed else None,
            queues=consumed,
        )

    def _gone(self, ledger: Ledger) -> None:
        ledger.upkeep.record_worker_end(self._executor.hostname)


SPAWNED = "celery_sharding.worker.spawned"


class ShardingStep(PartStep):
    """The ledger knows this worker while it lives, and what its dead children held."""

    label = "sharding executor"
    setting = "pecker_dsn"
    no = (None, "")
    factory = "celery_sharding.worker.step:presence"


def presence(worker: Any) -> Presence:
    """Name the executor.

    The pool's processes share the word that the worker is about to stop, so it is made
    before they are forked.
    """
    kind = kind_of(worker.pool_cls)
    fresh = kind == "prefork" and spawns(worker)
    if fresh:
        worker.app.conf.include = (*worker.app.conf.include, SPAWNED)
    executor = register_process(
        worker.app,
        worker.hostname,
        kind,
        limited=bool(worker.time_limit or worker.soft_time_limit),
        spawns=fresh,
    )
    return Presence(worker, executor)
