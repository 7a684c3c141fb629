"""Figures of the tables, read at most once a second however often scraped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from celery_pecker.alarms.overview import Overview as AlarmsOverview
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.observers.overview import Overview as ObserversOverview
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.metrics.measures import Measured
from celery_pecker.surfaces.metrics.outbox import Outboxes
from celery_pecker.surfaces.views import alarms, observers, schedules

MOST_SERIES = 200
"""Entries, at most, that have series of their own."""
FRESH = 1.0
"""Seconds for which figures are reused."""
OBSERVERS_FRESH = 5.0
"""The same of observers: counting them reads the whole table."""

logger = logging.getLogger(__name__)

_registered: dict[tuple[str, str], TableCollector] = {}
_registering = threading.Lock()


class TableCollector(Collector):
    """A collector over the tables; may be asked by several threads at once.

    While PostgreSQL is away ``celery_pecker_up`` is 0 and there are no other figures: a
    figure that may be hours old is worse than none. One thread reads at a time; a
    concurrent request gets the result of the last read, or waits for the first.
    """

    def __init__(
        self,
        overview: Overview,
        outboxes: Outboxes,
        others: Sequence[Measured] = (),
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._overview = overview
        self._outboxes = outboxes
        self._measured = [Measured(schedules.MEASURES, self._entries), *others]
        """What is read over one connection, in one turn."""
        self._clock = clock
        self._reading = threading.Lock()
        self._up = False
        self._read_at: float | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration the tables need not be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now, or of the last second."""
        self._refresh()
        read = self._up
        yield up(read)
        for one in self._measured if read else ():
            yield from one.collect()
        yield from self._outboxes.collect()

    def close(self) -> None:
        """Drop the connection."""
        self._overview.close()
        self._outboxes.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._overview.abandon()
        self._outboxes.abandon()

    def _refresh(self) -> None:
        # The first answer is waited for: two scrapes that come together after the
        # start would else tell an outage that there is not.
        if not self._reading.acquire(blocking=self._read_at is None):
            return
        try:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < FRESH:
                return
            self._up = self._read()
            self._read_at = self._clock.monotonic()
        finally:
            self._reading.release()

    def _read(self) -> bool:
        try:
            for one in self._measured:
                one.refresh()
        except PeckerError:
            return False
        return True

    def _entries(self) -> schedules.Summary:
        totals = self._overview.totals()
        few = totals.entries <= MOST_SERIES
        rows = self._overview.page(limit=MOST_SERIES).rows if few else []
        return schedules.Summary(totals, rows)


def register(
    settings: Settings,
    registry: CollectorRegistry = REGISTRY,
    outboxes: Mapping[str, Settings] | None = None,
) -> TableCollector:
    """Register the figures of the tables; idempotent.

    `outboxes` are the settings of each outbox by its name; by default the one in the
    same schema.

    The registry is Prometheus' own one by default: that of the process' own
    figures. It has one schema: figures of two would have the same names, which
    Prometheus refuses.
    """
    if registry is not REGISTRY:
        made = _collector(settings, outboxes)
        registry.register(made)
        return made
    key = (settings.dsn, settings.schema)
    with _registering:
        known = _registered.get(key)
        if known is None:
            known = _registered[key] = _collector(settings, outboxes)
            if len(_registered) == 1:
                registry.register(known)
            else:
                logger.warning(
                    "pecker: no metrics of schema %s here: those of another app have"
                    " the same names; give each app a Flower of its own",
                    settings.schema,
                )
    return known


def _collector(
    settings: Settings, outboxes: Mapping[str, Settings] | None
) -> TableCollector:
    database = Database.of(settings, role="metrics")
    named = outboxes or {"default": settings}
    alarms_overview = AlarmsOverview(database)
    others = [
        Measured(
            observers.MEASURES,
            ObserversOverview(database).summary,
            fresh=OBSERVERS_FRESH,
        ),
        Measured(alarms.MEASURES, lambda: alarms.summary_of(alarms_overview)),
    ]
    return TableCollector(Overview(database), Outboxes.of(named), others)


def up(read: bool) -> Metric:
    """Return the figure `up`: whether there are others."""
    return GaugeMetricFamily(
        "celery_pecker_up",
        "Whether the tables of celery-pecker could be read",
        value=float(read),
    )
