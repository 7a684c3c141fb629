"""The steps that settings of an app add to its workers."""

from typing import Any, ClassVar

from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.start_refused import refusing
from celery_pecker.kernel.workers import PartStep


class RoleStep(PartStep):
    """A part that workers have where `pecker_worker` names it."""

    role: ClassVar[str]

    def include_if(self, parent: Any) -> bool:
        """Return whether it is named; refuse settings that cannot be."""
        conf = parent.app.conf
        if not conf.get("pecker_worker"):
            return False
        with refusing():
            return self.role in Settings.read(conf, main=parent.app.main).worker


class SchedulerStep(RoleStep):
    """Competes for every slot beside all other workers and schedulers."""

    label = "pecker scheduler"
    role = "scheduler"
    factory = "celery_pecker.worker.replicas:Replicas"
    shown_as = "celery_pecker"


class OutboxStep(RoleStep):
    """Takes rows of every outbox of the app, each on threads of its own."""

    label = "pecker outbox"
    role = "outbox"
    factory = "celery_pecker.worker.outbox_runners:OutboxRunners"
    shown_as = "celery_pecker_outbox"


class ObserversStep(RoleStep):
    """Starts hosts of observers; a warm shutdown has them hand over what they hold.

    Observers run in processes of their own, so that none of them holds up the worker,
    and the worker none of them.
    """

    label = "pecker observers"
    role = "observers"
    factory = "celery_pecker.worker.observer_supervisor:ObserverSupervisor"
    shown_as = "celery_pecker_observers"


class RunsStep(PartStep):
    """Stands around the tasks of every worker of an app that has a `pecker_dsn`.

    Whether it is a scheduler or not: beat's slots are run by workers, too. The tasks
    are wrapped while the worker is put together, before its pool forks.
    """

    label = "pecker runs"
    requires = ()
    factory = "celery_pecker.worker.run_guards:guarded"

    def start(self, parent: Any) -> None:
        """Do nothing: what is to be done is done before the pool starts."""

    close = stop = terminate = start  # tasks may still run
