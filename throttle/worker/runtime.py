"""What lives as long as a worker, whatever becomes of its connection to the broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from throttle import watch
from throttle.admission import Accounts
from throttle.errors import Away
from throttle.exchange import Exchanger
from throttle.exchange.process import this_process
from throttle.hold import Hold
from throttle.meter import meter
from throttle.model import Holding, Target
from throttle.route import Route, load
from throttle.settings import Settings
from throttle.store import open_store
from throttle.worker import pool, starting
from throttle.worker.held import Held

logger = logging.getLogger("throttle.worker")

SHOWN = 20
"""Tenants that are reported one by one."""


class Runtime:
    """Accounts, hold, route, meter and exchange of one worker.

    Made before the pool forks, so that its children count into memory that they share
    with the worker; nothing runs before `start`.

    Raises:
        Misconfigured: What is configured cannot work; nothing was started.
    """

    def __init__(self, worker: Any, settings: Settings) -> None:
        self.settings = settings
        self.route = Route(load(settings.route), settings.limits)
        self.store = open_store(settings)
        try:
            self.store.check()
        except Away as error:
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
        self.parked: Callable[[str], int] = lambda _: 0
        """How many were parked for a database; the overflow's to say."""
        self.paced: Callable[[str], int] = lambda _: 0
        """How many wait for a `rate_limit` of their own, for a database."""
        self.collect: Callable[[], object] = lambda: None
        """Called ten times a second on the exchange's thread; the hook's."""
        pool.prepare(worker)
        self.exchanger = Exchanger(
            settings,
            self.store,
            meter,
            self.accounts,
            name=worker.hostname,
            holdings=self.holdings,
            heard=self._heard,
        )
        # Before the pool forks: a child must know that its parent reports for it.
        this_process.take(self.exchanger, settings)
        self.targets = {
            name: target
            for name, task in worker.app.tasks.items()
            if (target := self._option(task)) is not None or self._free(task)
        }
        """Of tasks for which it is the same whatever the message; None: through."""
        self._started = False

    def start(self) -> None:
        """Begin to count and to exchange; do nothing if it has begun."""
        if not self._started:
            self.exchanger.start()
            self._watching = watch.start(
                self.settings, self.store, self.exchanger.holder
            )
            self._started = True
            logger.info(
                "throttle: tasks are held at the limits of %s",
                starting.summary(self.settings),
            )

    def stop(self) -> None:
        """Report the last counts."""
        if self._started:
            self._watching.stop()
            self.exchanger.stop()
            self.store.close()

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

    def holdings(self) -> Mapping[str, Holding]:
        """Return what the worker says of itself, by database."""
        holdings: dict[str, Holding] = {}
        for database in self.settings.limits:
            waiting = self.hold.waiting(database)
            self.accounts.waiting(database, waiting.cost)
            holding = self.accounts.holding(database)
            holdings[database] = replace(
                holding,
                held=waiting.count + self.paced(database),
                held_bytes=waiting.bytes,
                parked=self.parked(database),
                dropped=round(self.exchanger.dropped),
                oldest=waiting.oldest,
                tenants=_most(waiting.tenants, holding.tenants),
            )
        return holdings

    def _heard(self) -> None:
        self.collect()


def _most(
    held: Mapping[str, int], admitted: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    both = {
        name: (held.get(name, 0), admitted.get(name, (0, 0))[1])
        for name in {**admitted, **held}
    }
    first = sorted(both, key=lambda name: both[name], reverse=True)[:SHOWN]
    return {name: both[name] for name in first}
