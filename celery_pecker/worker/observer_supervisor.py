"""The supervisor of the observers of one worker."""

from typing import Any

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.workers import wait_for
from celery_pecker.observers.app import observers_of
from celery_pecker.observers.hosts.supervisor import Supervisor


class ObserverSupervisor:
    """Hosts of observers beside a worker, not yet started."""

    def __init__(self, worker: Any) -> None:
        observers = observers_of(worker.app)
        if observers is None:
            raise Misconfigured(
                "pecker_worker has 'observers', and the app has none: make them with"
                " Observers(app)"
            )
        self._hosts = Supervisor(observers, name=worker.hostname)
        self.start = self._hosts.start
        self.leave = self._hosts.stop

    def join(self, *, patient: bool) -> None:
        """Wait until hosts have handed over, or end them: others take over then."""
        self.leave()
        if not patient or not wait_for(self._hosts.join, patient=True):
            self._hosts.kill()
            self._hosts.join(1.0)

    def info(self) -> list[dict[str, Any]]:
        """Return each host as people may want to know it."""
        return [*self._hosts.info()]
