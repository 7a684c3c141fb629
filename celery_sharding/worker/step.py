"""A worker as an executor of shards."""

from __future__ import annotations

from typing import Any

from celery import bootsteps, signals

from celery_pecker.worker.pools import kind_of, spawns
from celery_sharding.runner.executor import Executor, enlist
from celery_sharding.worker.presence import Presence

SPAWNED = "celery_sharding.worker.spawned"


class ShardingStep(bootsteps.StartStopStep):
    """The ledger knows this worker while it lives, and what its dead children held.

    The pool's processes share the word that the worker is about to stop, so it is made
    before they are forked.
    """

    label = "sharding executor"
    requires = ("celery.worker.components:Pool",)
    obj: Presence | None

    def include_if(self, parent: Any) -> bool:
        """Return whether the app has a ledger."""
        return bool(parent.app.conf.get("pecker_dsn"))

    def create(self, parent: Any) -> Presence:  # type: ignore[override]  # kept as obj
        """Name the executor."""
        kind = kind_of(parent.pool_cls)
        fresh = kind == "prefork" and spawns(parent)
        if fresh:
            parent.app.conf.include = (*parent.app.conf.include, SPAWNED)
        self._executor: Executor = enlist(
            parent.app,
            parent.hostname,
            kind,
            limited=bool(parent.time_limit or parent.soft_time_limit),
            spawns=fresh,
        )
        return Presence(parent, self._executor)

    def start(self, parent: Any) -> None:
        """Report the worker to the ledger, from a thread of its own."""
        signals.worker_shutting_down.connect(
            self._on_signal, sender=parent.hostname, weak=False
        )
        if self.obj is not None:
            self.obj.start()

    def close(self, parent: Any) -> None:  # noqa: ARG002  # Celery's
        """Begin no further item: pass tickets on to other workers."""
        self._executor.stop()

    def stop(self, parent: Any) -> None:
        """Remove the worker from the ledger."""
        signals.worker_shutting_down.disconnect(self._on_signal, sender=parent.hostname)
        self._executor.stop()
        if self.obj is not None:
            self.obj.stop()

    def terminate(self, parent: Any) -> None:
        """Stop; Celery calls either."""
        self.stop(parent)

    def _on_signal(self, **_: object) -> None:
        # Pools that run tasks on the worker's own thread stop it only after them.
        self._executor.stop()
