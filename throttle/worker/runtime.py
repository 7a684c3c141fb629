"""What a worker knows, whatever becomes of its connection to the broker."""

from __future__ import annotations

import logging
from typing import Any

from throttle.admission import Accounts
from throttle.errors import StoreUnavailable
from throttle.hold import Hold
from throttle.model import Target
from throttle.route import Route, load
from throttle.settings import Settings
from throttle.store import open_store
from throttle.worker import pool
from throttle.worker.brokers.held import Held

logger = logging.getLogger("throttle.worker")


class Runtime:
    """Accounts, hold, route, store and counts of one worker.

    Made before the pool forks, so that its children count into memory that they share
    with the worker.

    Raises:
        Misconfigured: What is configured cannot work; nothing was started.
    """

    def __init__(self, worker: Any, settings: Settings) -> None:
        self.settings = settings
        self.route = Route(load(settings.route), settings.limits)
        self.store = open_store(settings)
        try:
            self.store.check()
        except StoreUnavailable as error:
            logger.warning(
                "throttle: each limit's policy decides until there is an answer: %s",
                error,
            )
        self.accounts = Accounts(settings.limits, prior=settings.prior)
        self.hold: Hold[Held] = Hold(
            settings.limits,
            max_messages=settings.hold_messages,
            max_bytes=settings.hold_bytes,
        )
        pool.prepare(worker)
        self.targets = {
            name: target
            for name, task in worker.app.tasks.items()
            if (target := self._option(task)) is not None or self._free(task)
        }
        """Of tasks for which it is the same whatever the message; None: through."""

    def target(self, request: Any, name: str) -> Target | None:
        """Return where the traffic of a task goes; None: through.

        Of one that `targets` lacks.
        """
        # Celery has decoded the arguments already: to ask for them costs nothing.
        return self.route.target(
            name,
            request.args,
            request.kwargs,
            request.request_dict,
            option=getattr(request.task, "throttle", None),
        )

    def _option(self, task: Any) -> Target | None:
        option = getattr(task, "throttle", None)
        if option is None:
            return None
        return self.route.target(task.name, (), {}, {}, option=option)

    def _free(self, task: Any) -> bool:
        return not self.route.asks and getattr(task, "throttle", None) is None
