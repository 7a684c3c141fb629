"""Name in the log, once after a start, the entries whose task no worker knows.

A scheduler sends a message under whatever name an entry has: it need not have the code.
A name that was misspelt, or a task that was renamed, shows in a worker's log only, and
only once the first slot has come. So the workers are asked what they know, as `doctor`
asks them. None that answers says nothing: it is asked again later. During a deploy the
first worker may answer alone; so what is unknown counts at the second answer only.
"""

import logging
from collections.abc import Iterable

from celery import Celery

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.loop import Loop
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.replica.replica import Replica

logger = logging.getLogger("celery_pecker.beat")

UNREADY = 0.5
"""Seconds between two looks whether the scheduler has read all its entries."""
SECOND_LOOK = 10.0
"""Seconds between the answer in which a task is missing, and the one that counts."""
SILENT = Backoff(first=5.0, most=300.0)
"""Between two questions that no worker answers."""
NAMED = 20
"""Tasks that are named at most."""


class UnknownTasks:
    """Asks workers on a thread of its own, until they have said what they know."""

    def __init__(self, app: Celery, replica: Replica, *, kind: str) -> None:
        self._app = app
        self._replica = replica
        self._loop = Loop(self._step, name=f"pecker-{kind}-tasks")
        self._silent = 0
        self._missing: set[str] | None = None
        """What was missing in the first answer; None before it."""
        self.start, self.stop, self.join = (
            self._loop.start,
            self._loop.stop,
            self._loop.join,
        )

    def judge(self, known: set[str], entries: Iterable[Entry]) -> list[str] | None:
        """Take in what workers know; return what is to be logged, None: ask again."""
        # On its first use: Celery's inspection is nothing that a start waits for.
        from celery_pecker.surfaces.findings import broker, project  # noqa: PLC0415

        if not known:
            return None
        where = [project.Scheduled(one.name, one.task, "") for one in entries]
        found = {one.check: one.text for one in broker.unknown({"": [*known]}, where)}
        before, self._missing = self._missing, {*found}
        if found and before is None:
            return None
        return [text for check, text in found.items() if check in (before or ())]

    def _step(self) -> float:
        from celery_pecker.surfaces.findings import broker  # noqa: PLC0415  # as above

        if not self._replica.service.ready:
            return UNREADY
        known = broker.known_tasks(self._app)
        texts = self.judge(known, self._replica.claimant.agenda.entries)
        if texts is None:
            self._silent += not known
            return SECOND_LOOK if known else SILENT.seconds(self._silent, 1.0)
        for text in texts[:NAMED]:
            logger.warning("pecker: %s", text)
        if len(texts) > NAMED:
            logger.warning("pecker: no worker knows %d tasks more", len(texts) - NAMED)
        self._loop.stop()
        return 0.0
