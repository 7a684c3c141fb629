"""A worker that runs recorded tasks itself (mode ``local``), without a broker.

A bootstep of the worker, not of its consumer: it starts once, after the pool has
forked, and neither knows nor cares whether the consumer has a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals
from celery.worker import state

if TYPE_CHECKING:
    from celery_pecker.local.outbox_runner import OutboxRunner

GLANCE = 0.25
"""Seconds between looks at whether runs have ended."""


class OutboxStep(bootsteps.StartStopStep):
    """Takes rows of every outbox of the app, each on threads of its own."""

    label = "pecker outbox"
    requires = ("celery.worker.components:Pool",)
    obj: list[OutboxRunner] | None

    def include_if(self, parent: Any) -> bool:
        """Return whether workers of the app run recorded tasks themselves."""
        conf = parent.app.conf
        return conf.get("pecker_outbox_local") not in (None, False)

    def create(self, parent: Any) -> list[OutboxRunner]:  # type: ignore[override]  # kept as obj
        """Check all that can be checked now: nothing has started yet."""
        from celery_pecker.worker.outbox_runners import runners  # noqa: PLC0415  # PostgreSQL's driver

        return runners(parent)

    def start(self, parent: Any) -> None:
        """Take rows from now on."""
        signals.worker_shutting_down.connect(
            self._on_signal, sender=parent.hostname, weak=False
        )
        for runner in self.obj or ():
            runner.start()

    def close(self, parent: Any) -> None:  # noqa: ARG002  # Celery's
        """Take nothing more: the worker is about to stop."""
        self._on_signal()

    def stop(self, parent: Any) -> None:
        """Wait for what runs, as Celery does for tasks."""
        self._join(parent, patient=True)

    def terminate(self, parent: Any) -> None:
        """Wait for nothing: rows are due again after their holds."""
        self._join(parent, patient=False)

    def info(self, obj: Any) -> Any:  # noqa: ARG002  # Celery's
        """Return what `celery inspect stats` shows."""
        runners = self.obj or ()
        return {"celery_pecker_outbox": [runner.stats() for runner in runners]}

    def _join(self, parent: Any, *, patient: bool) -> None:
        signals.worker_shutting_down.disconnect(self._on_signal, sender=parent.hostname)
        self._on_signal()
        for runner in self.obj or ():
            while not runner.join(GLANCE):
                if not patient or state.should_terminate not in (None, False):
                    break

    def _on_signal(self, **_: object) -> None:
        for runner in self.obj or ():
            runner.stop()
