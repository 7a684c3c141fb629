"""Figures of the tables, read at most once a second however often scraped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.observers.overview import ObserversOverview
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.metrics.measures import Measured, ReadCollector
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


class TableCollector(ReadCollector):
    """A collector over the tables; may be asked by several threads at once.

    While PostgreSQL is away ``celery_pecker_up`` is 0 and there are no other figures: a
    figure that may be hours old is worse than none.
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
        super().__init__(self._figures, fresh=FRESH, clock=clock)

    def close(self) -> None:
        """Drop the connection."""
        self._overview.close()
        self._outboxes.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._overview.abandon()
        self._outboxes.abandon()

    def _figures(self) -> Iterator[Metric]:
        try:
            for one in self._measured:
                one.refresh()
        except PeckerError:
            yield up(False)
        else:
            yield up(True)
            for one in self._measured:
                yield from one.collect()
        yield from self._outboxes.collect()

    def _entries(self) -> schedules.SchedulesSummary:
        totals = self._overview.totals()
        few = totals.entries <= MOST_SERIES
        rows = self._overview.page(limit=MOST_SERIES).rows if few else []
        return schedules.SchedulesSummary(totals, rows)


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
