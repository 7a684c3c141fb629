"""The runners of recorded tasks of one worker: one for each outbox of its app."""

from collections.abc import Callable
from typing import Any

from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.workers import kind_of, wait_for
from celery_pecker.outbox.app import settings_of
from celery_pecker.schedules.local.outbox_runner import OutboxRunner
from celery_pecker.worker.run_guards import messages_of


class OutboxRunners:
    """What runs recorded tasks beside a worker, not yet started."""

    def __init__(self, worker: Any) -> None:
        app = worker.app
        service: Callable[[str], Any] = messages_of(app).service  # each is known
        known = settings_of(app, Settings.read(app.conf, main=app.main))
        self._all = [
            OutboxRunner(
                app,
                service(name),
                settings,
                hostname=worker.hostname,
                pool_kind=kind_of(worker.pool_cls),
                name=name,
            )
            for name, settings in known.items()
        ]

    def start(self) -> None:
        """Take rows from now on."""
        for runner in self._all:
            runner.start()

    def leave(self) -> None:
        """Take nothing more."""
        for runner in self._all:
            runner.stop()

    def join(self, *, patient: bool) -> None:
        """Wait for what runs, or for nothing: rows are due again after their holds."""
        self.leave()
        for runner in self._all:
            wait_for(runner.join, patient=patient)

    def info(self) -> list[dict[str, Any]]:
        """Return the counts of each outbox."""
        return [runner.stats() for runner in self._all]
