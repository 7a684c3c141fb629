"""Parts that live beside the pool of a worker, and what that pool is."""

from collections.abc import Callable
from typing import Any, ClassVar

from billiard import get_start_method
from celery import bootsteps, signals
from celery.utils.imports import symbol_by_name
from celery.worker import state

from celery_pecker.kernel.start_refused import refusing

KINDS = {
    "celery.concurrency.prefork": "prefork",
    "celery.concurrency.thread": "threads",
    "celery.concurrency.gevent": "gevent",
    "celery.concurrency.eventlet": "eventlet",
    "celery.concurrency.solo": "solo",
}


def kind_of(pool: Any) -> str:
    """Return the kind of a pool class, that of its nearest known ancestor."""
    for one in getattr(pool, "__mro__", ()):
        if one.__module__ in KINDS:
            return KINDS[one.__module__]
    return str(pool)


def spawns(worker: Any) -> bool:
    """Return whether the processes of its pool are fresh interpreters."""
    method = getattr(worker, "pool_start_method", "fork")  # new in Celery 5.7
    return method != "fork" or get_start_method() != "fork"


GLANCE = 0.25
"""Seconds between looks at whether what runs has ended, or is to end at once."""


def is_cold() -> bool:
    """Return whether this worker is to end at once, without waiting for what runs."""
    return state.should_terminate not in (None, False)


def wait_for(join: Callable[[float], bool], *, patient: bool) -> bool:
    """Wait until all has ended, as Celery does for tasks; return whether it has.

    Until a cold shutdown is requested, or for one glance where not ``patient``.
    """
    while not join(GLANCE):
        if not patient or is_cold():
            return False
    return True


class PartStep(bootsteps.StartStopStep):
    """A bootstep of the worker, not of its consumer, that adds a part to it.

    It starts once, after the pool has forked and before the consumer connects, and
    neither knows nor cares when the consumer loses the broker. Its part has `start()`;
    `leave()`, after which it takes nothing more, safe in a signal handler and
    idempotent; `join(patient=…)`, which leaves and waits for what runs, or ends it;
    and `info()`, what people may want to know, as JSON has it.
    """

    requires: tuple[str, ...] = ("celery.worker.components:Pool",)
    factory: ClassVar[str]
    """Dotted path of what makes the part of a worker. Not loaded before it is wanted:
    with it come PostgreSQL's driver and transports that this worker may not have."""
    shown_as: ClassVar[str] = ""
    """Its name in what `celery inspect stats` shows; empty: it is not shown."""
    obj: Any

    def include_if(self, parent: Any) -> bool:
        """Return whether workers of the app have the part: it has our tables."""
        return bool(parent.app.conf.get("pecker_dsn"))

    def create(self, parent: Any) -> Any:
        """Check all that can be checked now: what is misconfigured ends the worker."""
        with refusing():
            return symbol_by_name(self.factory)(parent)

    def start(self, parent: Any) -> None:
        """Start the part."""
        signals.worker_shutting_down.connect(
            self._on_signal, sender=parent.hostname, weak=False
        )
        self.obj.start()

    def close(self, parent: Any) -> None:
        """Take nothing more: the worker is about to stop."""
        self.obj.leave()

    def stop(self, parent: Any) -> None:
        """Wait for what runs, as Celery does for tasks."""
        self._join(parent, patient=True)

    def terminate(self, parent: Any) -> None:
        """End what runs; Celery calls either this or `stop`."""
        self._join(parent, patient=False)

    def info(self, obj: Any) -> Any:
        """Return what `celery inspect stats` shows."""
        return {self.shown_as: self.obj.info()} if self.shown_as else None

    def _join(self, parent: Any, *, patient: bool) -> None:
        signals.worker_shutting_down.disconnect(self._on_signal, sender=parent.hostname)
        self.obj.join(patient=patient)

    def _on_signal(self, **_: object) -> None:
        # In the signal handler itself: what Celery does next may wait for a broker
        # that hangs, or for tasks, and this worker is to take nothing more.
        self.obj.leave()
