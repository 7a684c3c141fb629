"""What a process of the pool held when it died is free at once.

Celery says that a child was lost up to ten seconds later, and not which; so the pool's
list is looked at. Nobody has to wait for a lease: the dead hold nothing.
"""

from __future__ import annotations

import logging
from typing import Any

from celery_sharding import flow
from celery_sharding.ledger import Ledger
from celery_sharding.runner.executor import Executor

logger = logging.getLogger(__name__)


class Children:
    """The processes of a worker's pool, and those that are gone and not yet told of."""

    def __init__(self, app: Any, executor: Executor) -> None:
        self._app = app
        self._executor = executor
        self._known: frozenset[int] = frozenset()
        self._gone: set[int] = set()

    def look(self, pool: Any) -> bool:
        """Say whether processes are gone that the ledger was not told of."""
        now = processes(pool)
        self._gone |= self._known - now
        self._known = now
        return bool(self._gone)

    def report(self, ledger: Ledger) -> None:
        """What they held is free, and their jobs go on."""
        for process in sorted(self._gone):
            jobs = ledger.tickets.lost(self._executor.prefix(process))
            for job in jobs:
                logger.warning(
                    "sharding: process %s died over job %s: its shards go on elsewhere",
                    process,
                    job,
                )
                flow.go_on(self._app, ledger, job)
            self._gone.discard(process)


def processes(pool: Any) -> frozenset[int]:
    """Return the process ids of a prefork pool; of others there are none."""
    children = getattr(getattr(pool, "_pool", None), "_pool", None)
    if not isinstance(children, list):
        return frozenset()
    return frozenset(one.pid for one in [*children] if getattr(one, "pid", None))
