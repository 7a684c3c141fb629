"""What a process of the pool held when it died is free at once.

Celery says that a child was lost up to ten seconds later, and not which; so the pool's
list is looked at. No wait for a lease is needed: a dead process holds nothing.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery_sharding import flow
from celery_sharding.flow.holder import prefix_of
from celery_sharding.ledger import Ledger
from celery_sharding.runner.executor import Executor

logger = logging.getLogger(__name__)


class Children:
    """The processes of a worker's pool, and those that died and are not reported."""

    def __init__(self, app: Any, executor: Executor) -> None:
        self._app = app
        self._executor = executor
        self._known: frozenset[int] = frozenset()
        self._gone: set[int] = set()
        self._reported: set[int] = set()
        """Of the dead that the pool lists still."""

    def look(self, pool: Any) -> bool:
        """Return whether processes are gone that were not reported to the ledger.

        The pool may take five seconds to see that one is dead.
        """
        listed = processes(pool)
        if not listed and not self._known:
            return bool(self._gone)
        # One that died young was never seen in the pool's list.
        every = self._known | listed | self._executor.processes()
        self._reported &= every
        self._known = listed
        self._gone |= {one for one in every - self._reported if dead(one)}
        return bool(self._gone)

    def report(self, ledger: Ledger) -> None:
        """Free what they held, and let their jobs go on."""
        for process in sorted(self._gone):
            self._free(
                ledger,
                self._executor.prefix(process),
                f"process {process}",
                in_hand=self._executor.in_hand(process),
            )
            self._leave(ledger, process)
            self._gone.discard(process)
            self._reported.add(process)
            self._executor.forget(process)

    def _leave(self, ledger: Ledger, process: int) -> None:
        """Have PreProcess and Post that ran in a dead process begun anew."""
        for job in ledger.outcomes.left(prefix_of(process)):
            logger.warning(
                "sharding: process %s died in PreProcess or Post of job %s: it is begun"
                " anew",
                process,
                job,
            )
            flow.advance_job(self._app, ledger, job)

    def report_former(self, ledger: Ledger) -> None:
        """Free what an earlier worker of this name held.

        A container that starts again keeps its name: no wait for a lease is needed
        then.
        """
        hostname = self._executor.hostname
        self._free(ledger, f"{hostname}:", f"an earlier {hostname}")

    def _free(
        self,
        ledger: Ledger,
        prefix: str,
        process: str,
        *,
        in_hand: tuple[int, int] | None = None,
    ) -> None:
        for job in ledger.tickets.end_holds_of(prefix, in_hand=in_hand):
            logger.warning(
                "sharding: %s died over job %s: its shards go on elsewhere",
                process,
                job,
            )
            flow.advance_job(self._app, ledger, job)


def dead(process: int) -> bool:
    """Return whether a child of this process is dead; leave it to the pool to reap."""
    if not hasattr(os, "waitid"):
        return False  # macOS before Python 3.13: the pool says so, later
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process, how) is not None
    except ChildProcessError:
        return True


def processes(pool: Any) -> frozenset[int]:
    """Return the process ids of a prefork pool; of others there are none."""
    children = getattr(getattr(pool, "_pool", None), "_pool", None)
    if not isinstance(children, list):
        return frozenset()
    return frozenset(one.pid for one in [*children] if getattr(one, "pid", None))
