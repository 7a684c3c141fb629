"""Renew a stage's lease while the user's code runs, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Self

from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger import Ledger, at

logger = logging.getLogger(__name__)

PARTS = 3
"""Renewals in a lease: one may be lost, or come late."""
SOON = 0.5
"""Seconds between two looks at whether the code is to end."""


class LeaseRenewal:
    """Renews a lease until the block ends, or another has it.

    The user's code may take hours without a call to the ledger. What it returns is
    fenced by the epoch when it is written: the lease only keeps others from beginning
    the same at the same time.
    """

    def __init__(
        self,
        app: Any,
        lease: float,
        renew: Callable[[Ledger], bool],
        *,
        stopping: Callable[[], bool] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        """Keep a lease of that many seconds.

        ``renew`` renews the lease, with the ledger of another thread. ``end``
        is called once the lease is lost, or ``stopping`` says so: within half a second.
        """
        self._app = app
        self._every = lease / PARTS if end is None else min(lease / PARTS, SOON)
        self._stopping = stopping
        self._end = end
        self._renew = renew
        self._failed = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)
        self._over = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name="celery_sharding-renewal", daemon=True
        )

    @property
    def lost(self) -> bool:
        """Whether this process has lost the stage: what it does will not be written."""
        return self._lost.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait that long; return whether the lease is lost."""
        return self._lost.wait(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        ledger = at(self._app, role="renewal")
        try:
            while not self._over.wait(self._every) and not self.lost:
                # A mistake ends no thread: a stage that runs would lose its lease.
                self._failed.call("renewing a stage", None, self._ask, ledger)
                over = self._lost.is_set()
                if self._stopping is not None:
                    over = over or self._stopping()
                if over and self._end is not None:
                    self._end()
        finally:
            ledger.close()

    def _ask(self, ledger: Ledger) -> None:
        try:
            if not self._renew(ledger):
                self._lost.set()
        except DatabaseUnavailable:
            return  # retried, for as long as the lease may stand
