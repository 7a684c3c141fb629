"""A worker that is a scheduler too.

A bootstep of the worker, not of its consumer: it starts once, after the pool has
forked and before the consumer connects, and neither knows nor cares when the consumer
loses the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals

if TYPE_CHECKING:
    from celery_pecker.worker.replicas import Replicas


class SchedulerStep(bootsteps.StartStopStep):
    """Competes for every slot beside all other workers and schedulers."""

    label = "pecker scheduler"
    requires = ("celery.worker.components:Pool",)
    obj: Replicas | None

    def include_if(self, parent: Any) -> bool:
        """Return whether the app's workers are schedulers: unless a plain no is set."""
        return parent.app.conf.get("pecker_worker") not in (None, False)

    def create(self, parent: Any) -> Replicas:  # type: ignore[override]  # kept as obj
        """Check all that can be checked now: nothing has started yet."""
        # Not before it is known that they are wanted: with them come the publisher,
        # and with that the transports of brokers that this worker may not have.
        from celery_pecker.worker.replicas import Replicas  # noqa: PLC0415

        return Replicas(parent)

    def start(self, parent: Any) -> None:
        """Start the replicas."""
        if self.obj is not None:
            signals.worker_shutting_down.connect(
                self._on_signal, sender=parent.hostname, weak=False
            )
            self.obj.start()

    def close(self, parent: Any) -> None:  # noqa: ARG002  # Celery's
        """Claim nothing more: the worker is about to stop."""
        if self.obj is not None:
            self.obj.leave()

    def stop(self, parent: Any) -> None:
        """Wait until what is in hand is out, and local runs have ended."""
        self._join(parent, patient=True)

    def terminate(self, parent: Any) -> None:
        """Wait until what is in hand is out; Celery calls either this or `stop`."""
        self._join(parent, patient=False)

    def _join(self, parent: Any, *, patient: bool) -> None:
        signals.worker_shutting_down.disconnect(self._on_signal, sender=parent.hostname)
        if self.obj is not None:
            self.obj.join(patient=patient)

    def info(self, obj: Any) -> Any:  # noqa: ARG002  # Celery's
        """Return what `celery inspect stats` shows."""
        return None if self.obj is None else {"celery_pecker": self.obj.info()}

    def _on_signal(self, **_: object) -> None:
        # In the signal handler itself: what Celery does next may wait for a broker
        # that hangs, or for tasks, and this worker is not one to win slots any more.
        if self.obj is not None:
            self.obj.leave()
