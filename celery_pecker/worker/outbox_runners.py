"""The runners of recorded tasks of one worker: one for each outbox of its app."""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.workers import kind_of, wait_for
from celery_pecker.outbox.app import outboxes
from celery_pecker.outbox.runs.service import DEFAULT
from celery_pecker.schedules.local.outbox_runner import OutboxRunner
from celery_pecker.worker.run_guards import messages_of


class OutboxRunners:
    """What runs recorded tasks beside a worker, not yet started."""

    def __init__(self, worker: Any) -> None:
        self._all = _made(worker)

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


def _made(worker: Any) -> list[OutboxRunner]:
    app = worker.app
    known: dict[str, Settings] = {one.name: one.settings for one in outboxes(app)}
    if not known:
        known = {DEFAULT: Settings.read(app.conf, main=app.main)}
    messages = messages_of(app)
    made = []
    for name, settings in known.items():
        service = messages.service(name)
        assert service is not None  # noqa: S101  # it is of these outboxes
        made.append(
            OutboxRunner(
                app,
                service,
                settings,
                hostname=worker.hostname,
                pool_kind=kind_of(worker.pool_cls),
                name=name,
            )
        )
    return made
