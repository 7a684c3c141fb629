"""Renews the tickets that this process holds while its threads run users' code.

One thread for all of them, with a connection of its own that it makes when something
takes longer than a third of a lease. It also sees items that hang (`hung_item`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_sharding.ledger import Ledger, at
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.hung_item import HungItem

IDLE = 60.0
"""Seconds after which a thread that has nothing to renew closes its connection."""
GLANCE = 1.0
"""Seconds between two looks at what is renewed: another item runs by then."""
RETRY = 0.5
"""Seconds until the next question where there was no answer; nothing ends this wait,
or each item that begins would ask a broken ledger once more."""

logger = logging.getLogger(__name__)


class HoldRenewal:
    """Renews holdings, on a thread that is started when it is first needed."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._process = 0
        self._fresh()

    def _fresh(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._kept: dict[int, tuple[Holding, HungItem]] = {}
        self._thread: threading.Thread | None = None
        self._failed = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)

    @contextmanager
    def keeping(self, holding: Holding, hung_item: HungItem) -> Iterator[None]:
        """Renew the holding until the block ends."""
        if self._process != os.getpid():
            self._fresh()  # a child has neither the thread nor what it kept
        with self._changed:
            self._kept[id(holding)] = (holding, hung_item)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="celery_sharding-tickets", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._kept[id(holding)]

    def _run(self) -> None:
        ledger = at(self._app, role="renewal")
        while True:
            with self._changed:
                kept = [*self._kept.values()]
                if not kept:
                    if not self._changed.wait(IDLE):
                        self._thread = None
                        break
                    continue
                due = min(min(held.renew_at, hung_item.due) for held, hung_item in kept)
                left = min(due - monotonic(), GLANCE)
                if left > 0:
                    self._changed.wait(left)
                    continue
            # A mistake at one holding ends no thread: the others would lose theirs.
            refused = [
                self._failed.call("renewing a hold", True, self._look, ledger, *one)
                for one in kept
            ]
            if any(refused):
                threading.Event().wait(RETRY)
        ledger.close()

    def _look(self, ledger: Ledger, holding: Holding, hung_item: HungItem) -> bool:
        """Do what is due; return whether it is to be retried soon."""
        now = monotonic()
        if hung_item.due <= now:
            return (
                user_code.call_logging_errors(
                    "taking a hung item", hung_item.take, ledger
                )
                is not None
            )
        if holding.renew_at <= now and holding.is_held:
            return holding.renew(ledger) is None
        return not holding.is_held
