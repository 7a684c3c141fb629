"""The steps that settings of an app add to its workers."""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.workers import PartStep


class SchedulerStep(PartStep):
    """Competes for every slot beside all other workers and schedulers."""

    label = "pecker scheduler"
    setting = "pecker_worker"
    factory = "celery_pecker.worker.replicas:Replicas"
    shown_as = "celery_pecker"


class OutboxStep(PartStep):
    """Takes rows of every outbox of the app, each on threads of its own."""

    label = "pecker outbox"
    setting = "pecker_outbox_local"
    factory = "celery_pecker.worker.outbox_runners:OutboxRunners"
    shown_as = "celery_pecker_outbox"


class ObserversStep(PartStep):
    """Starts hosts of observers; a warm shutdown has them hand over what they hold.

    Observers run in processes of their own, so that none of them holds up the worker,
    and the worker none of them.
    """

    label = "pecker observers"
    setting = "pecker_observers"
    factory = "celery_pecker.worker.observer_supervisor:ObserverSupervisor"
    shown_as = "celery_pecker_observers"


class RunsStep(PartStep):
    """Stands around the tasks of every worker of an app that has a `pecker_dsn`.

    Whether it is a scheduler or not: beat's slots are run by workers, too. The tasks
    are wrapped while the worker is put together, before its pool forks.
    """

    label = "pecker runs"
    requires = ()
    setting = "pecker_dsn"
    no = (None, "")
    factory = "celery_pecker.worker.run_guards:guarded"

    def start(self, parent: Any) -> None:
        """Do nothing: what is to be done is done before the pool starts."""

    close = stop = terminate = start  # tasks may still run
