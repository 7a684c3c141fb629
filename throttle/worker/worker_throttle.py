"""All of throttle in one worker: what it knows, its hook, its exchange."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from celery_pecker.kernel.start_refused import refusing
from throttle import watch
from throttle.errors import Misconfigured
from throttle.exchange import Exchanger
from throttle.exchange.process import this_process
from throttle.meter import meter
from throttle.model import Amount, Holding
from throttle.settings import Settings
from throttle.worker import starting
from throttle.worker.hook import Hook, Runtime

logger = logging.getLogger("throttle.worker")

SHOWN = 20
"""Tenants that are reported one by one."""


def hang(consumer: Any) -> "WorkerThrottle":
    """Install the hook on a consumer that is being made.

    Raises:
        StartRefused: A setting, a route, a task or the store is wrong.
    """
    with refusing(Misconfigured):
        settings = Settings.read(consumer.app.conf)
        starting.check_tasks(consumer.app.tasks, settings)
        return WorkerThrottle(consumer, settings)


class WorkerThrottle:
    """Lives as long as the worker, whatever becomes of its connection to the broker.

    Made before the pool forks; nothing runs before `begin`.

    Raises:
        Misconfigured: What is configured cannot work; nothing was started.
    """

    def __init__(self, consumer: Any, settings: Settings) -> None:
        worker = consumer.controller
        self.settings = settings
        self.runtime = Runtime(worker, settings)
        self.hook = Hook(consumer, self.runtime)
        self.figures = None
        if consumer.app.conf.get("pecker_dsn"):
            # Without tables no driver of a database is loaded
            from throttle.worker.figures import figures_of  # noqa: PLC0415

            self.figures = figures_of(consumer.app, settings, self.runtime.store)
        self._holdings: Mapping[str, Holding] = {}
        self.exchanger = Exchanger(
            settings,
            self.runtime.store,
            meter.read,
            self.runtime.accounts,
            name=worker.hostname,
            holdings=self._told,
            on_answer=self._heard,
        )
        # Before the pool forks: a child must know that its parent reports for it.
        this_process.take(self.exchanger, settings)
        self._started = False

    def begin(self, consumer: Any) -> None:
        """Take a new connection; at the first, begin to count and to exchange."""
        self.hook.begin(consumer)
        if not self._started:
            self.exchanger.start()
            self._watching = watch.start(
                self.settings, self.runtime.store, self.exchanger.holder
            )
            if self.figures is not None:
                self.figures.loop.start()
            self._started = True
            logger.info(
                "throttle: tasks are held at the limits of %s",
                starting.summary(self.settings),
            )

    def leave(self, consumer: Any) -> None:
        """Return what is held: the connection is lost, or the worker ends."""
        self.hook.leave(consumer)

    def close(self) -> None:
        """Report the last counts."""
        if self._started:
            self._watching.stop()
            self.exchanger.stop()
            if self.figures is not None:
                self.figures.loop.stop()
                self.figures.loop.join(watch.LEAVING)
            self.runtime.store.close()

    def _told(self) -> Mapping[str, Holding]:
        self._holdings = self.holdings()
        return self._holdings

    def _heard(self) -> None:
        self.hook.collect()
        if self.figures is not None:
            self.figures.note(self._holdings, self.exchanger.snapshot)

    def holdings(self) -> Mapping[str, Holding]:
        """Return what the worker says of itself, by database."""
        holdings: dict[str, Holding] = {}
        accounts, hook = self.runtime.accounts, self.hook
        for database in self.settings.limits:
            waiting = self.runtime.hold.waiting(database)
            accounts.waiting(database, waiting.cost)
            holding = accounts.holding(database)
            holdings[database] = replace(
                holding,
                held=waiting.count + hook.held.pace.count(database),
                held_bytes=waiting.bytes,
                parked=hook.overflow.parked(database),
                dropped=round(self.exchanger.dropped),
                oldest=waiting.oldest,
                tenants=_most(waiting.tenants, holding.tenants),
            )
        return holdings

    def info(self) -> dict[str, Any]:
        """Return what people may want to know, as JSON can say it."""
        runtime, exchanger = self.runtime, self.exchanger
        return {
            "databases": {
                database: _database(runtime, database, holding)
                for database, holding in self.holdings().items()
            },
            "exchange": {
                "alive": exchanger.alive,
                "away": exchanger.snapshot.away,
                "failures": exchanger.failures,
                "dropped": round(exchanger.dropped, 3),
            },
            "route_failures": runtime.route.failures,
            "prefetch_more": self.hook.held.prefetch_more,
        }


def _most(
    held: Mapping[str, int], admitted: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    both = {
        name: (held.get(name, 0), admitted.get(name, (0, 0))[1])
        for name in {**admitted, **held}
    }
    first = sorted(both, key=lambda name: both[name], reverse=True)[:SHOWN]
    return {name: both[name] for name in first}


def _database(runtime: Runtime, database: str, holding: Holding) -> dict[str, Any]:
    state = runtime.accounts.state(database)
    seen = state.seen
    return {
        "limit": _amount(holding.limit),
        "traffic": seen and _amount(seen.traffic[runtime.settings.estimator]),
        "factor": seen and round(seen.factor, 4),
        "workers": seen and seen.holders,
        "share": round(state.share, 4),
        "want": round(holding.want, 4),
        "own": _amount(state.own),
        "expected": _amount(state.expected),
        "policy": state.policy and str(state.policy),
        "held": holding.held,
        "held_bytes": holding.held_bytes,
        "oldest": round(holding.oldest, 3),
        "parked": holding.parked,
        "admitted": holding.admitted,
        "would_hold": holding.would_hold,
        "tenants": {
            name or "-": {"held": held, "admitted": admitted}
            for name, (held, admitted) in holding.tenants.items()
        },
    }


def _amount(amount: Amount) -> dict[str, float]:
    return {
        "operations": round(amount.operations, 3),
        "seconds": round(amount.seconds, 4),
    }
