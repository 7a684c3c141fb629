"""A worker that supervises hosts of observers.

A bootstep of the worker, not of its consumer: it starts once, and neither knows nor
cares whether the consumer has a broker. Observers run in processes of their own, so
that none of them holds up the worker, and the worker none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals
from celery.worker import state

if TYPE_CHECKING:
    from celery_pecker.observers.hosts.supervisor import Supervisor

GLANCE = 0.25
"""Seconds between looks at whether hosts have ended."""


def _cold() -> bool:
    return state.should_terminate not in (None, False)


class ObserversStep(bootsteps.StartStopStep):
    """Starts hosts; a warm shutdown has them hand over what they hold."""

    label = "pecker observers"
    requires = ("celery.worker.components:Pool",)
    obj: Supervisor | None

    def include_if(self, parent: Any) -> bool:
        """Return whether workers of the app supervise hosts."""
        return parent.app.conf.get("pecker_observers") not in (None, False)

    def create(self, parent: Any) -> Supervisor:  # type: ignore[override]  # kept as obj
        """Check all that can be checked now: nothing has started yet."""
        from celery_pecker.worker.observer_supervisor import supervisor  # noqa: PLC0415  # PostgreSQL's driver

        return supervisor(parent)

    def start(self, parent: Any) -> None:
        """Start the hosts, which take observers."""
        if self.obj is not None:
            signals.worker_shutting_down.connect(
                self._on_signal, sender=parent.hostname, weak=False
            )
            self.obj.start()

    def close(self, parent: Any) -> None:  # noqa: ARG002  # Celery's
        """Hand over: the worker is about to stop."""
        self._on_signal()

    def stop(self, parent: Any) -> None:
        """Wait until hosts have handed over."""
        self._leave(parent)
        hosts = self.obj
        while hosts is not None and not hosts.join(GLANCE):
            if _cold():
                hosts.kill()

    def terminate(self, parent: Any) -> None:
        """End hosts at once: others take over when their leases are over, or before."""
        self._leave(parent)
        if self.obj is not None:
            self.obj.kill()
            self.obj.join(1.0)

    def info(self, obj: Any) -> Any:  # noqa: ARG002  # Celery's
        """Return what `celery inspect stats` shows."""
        hosts = [] if self.obj is None else [*self.obj.info()]
        return {"celery_pecker_observers": hosts}

    def _leave(self, parent: Any) -> None:
        signals.worker_shutting_down.disconnect(self._on_signal, sender=parent.hostname)
        self._on_signal()

    def _on_signal(self, **_: object) -> None:
        if self.obj is not None:
            self.obj.stop()
