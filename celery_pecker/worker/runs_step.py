"""Runs in a worker: which may start, and how long they may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps

if TYPE_CHECKING:
    from celery_pecker.runs.guard import Guard


class RunsStep(bootsteps.StartStopStep):
    """Stands around the tasks of every worker of an app that has a `pecker_dsn`.

    Whether it is a scheduler or not: beat's slots are run by workers, too. The tasks
    are wrapped while the worker is put together, before its pool forks.
    """

    label = "pecker runs"
    obj: Guard | None

    def include_if(self, parent: Any) -> bool:
        """Return whether the app uses celery-pecker."""
        return bool(parent.app.conf.get("pecker_dsn"))

    def create(self, parent: Any) -> Guard:  # type: ignore[override]  # kept as obj
        """Wrap the tasks."""
        from celery_pecker.worker.run_guards import guarded  # noqa: PLC0415  # PostgreSQL's driver

        return guarded(parent)

    def start(self, parent: Any) -> None:
        """Do nothing: what is to be done is done before the pool starts."""

    def stop(self, parent: Any) -> None:
        """Do nothing: tasks may still run."""

    def terminate(self, parent: Any) -> None:
        """Do nothing: tasks may still run."""
