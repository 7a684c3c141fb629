"""A worker as an executor of shards, and what the ledger knows of it.

What a process of the pool held when it died is free at once. Celery says that a child
was lost up to ten seconds later, and not which; so the pool's list is looked at. No
wait for a lease is needed: a dead process holds nothing.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from celery.utils.nodenames import worker_direct

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.workers import GLANCE, PartStep, is_cold, kind_of, spawns
from celery_sharding import flow
from celery_sharding.errors import DatabaseUnavailable, Misconfigured
from celery_sharding.ledger import Ledger, at
from celery_sharding.process import prefix_of
from celery_sharding.runner.shard_worker import ShardWorker, register_process


class Children:
    """The processes of a worker's pool, and those that died and are not reported."""

    def __init__(self, app: Any, executor: ShardWorker) -> None:
        self._app = app
        self._executor = executor
        self._known: frozenset[int] = frozenset()
        self._gone: set[int] = set()
        self._reported: set[int] = set()
        """Of the dead that the pool lists still."""

    def look(self, pool: Any) -> bool:
        """Return whether processes are gone that were not reported to the ledger.

        The pool may take five seconds to see that one is dead.
        """
        listed = processes(pool)
        if not listed and not self._known:
            return bool(self._gone)
        # One that died young was never seen in the pool's list.
        every = self._known | listed | self._executor.processes()
        self._reported &= every
        self._known = listed
        self._gone |= {one for one in every - self._reported if dead(one)}
        return bool(self._gone)

    def report(self, ledger: Ledger) -> None:
        """Free what they held, and let their jobs go on."""
        for process in sorted(self._gone):
            self._free(
                ledger,
                self._executor.prefix(process),
                f"process {process}",
                in_hand=self._executor.in_hand(process),
            )
            self._leave(ledger, process)
            self._gone.discard(process)
            self._reported.add(process)
            self._executor.forget(process)

    def _leave(self, ledger: Ledger, process: int) -> None:
        """Have PreProcess and Post that ran in a dead process begun anew."""
        for job in ledger.outcomes.left(prefix_of(process)):
            logger.warning(
                "sharding: process %s died in PreProcess or Post of job %s: it is begun"
                " anew",
                process,
                job,
            )
            flow.advance_job(self._app, ledger, job)

    def report_former(self, ledger: Ledger) -> None:
        """Free what an earlier worker of this name held.

        A container that starts again keeps its name: no wait for a lease is needed
        then.
        """
        hostname = self._executor.hostname
        self._free(ledger, f"{hostname}:", f"an earlier {hostname}")

    def _free(
        self,
        ledger: Ledger,
        prefix: str,
        process: str,
        *,
        in_hand: tuple[int, int] | None = None,
    ) -> None:
        for job in ledger.tickets.end_holds_of(prefix, in_hand=in_hand):
            logger.warning(
                "sharding: %s died over job %s: its shards go on elsewhere",
                process,
                job,
            )
            flow.advance_job(self._app, ledger, job)


def dead(process: int) -> bool:
    """Return whether a child of this process is dead; leave it to the pool to reap."""
    if not hasattr(os, "waitid"):
        return False  # macOS before Python 3.13: the pool says so, later
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process, how) is not None
    except ChildProcessError:
        return True


def processes(pool: Any) -> frozenset[int]:
    """Return the process ids of a prefork pool; of others there are none."""
    children = getattr(getattr(pool, "_pool", None), "_pool", None)
    if not isinstance(children, list):
        return frozenset()
    return frozenset(one.pid for one in [*children] if getattr(one, "pid", None))


logger = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two heartbeats."""
STOP_TIMEOUT = 10.0
"""Seconds that a stopping worker waits for its last report to be written."""


class Presence:
    """A thread that reports this worker to the ledger."""

    def __init__(self, worker: Any, executor: ShardWorker) -> None:
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

    def join(self, *, patient: bool) -> None:
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
