"""Figures of the tables, read at most once a second however often scraped."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.last_read import LastRead
from celery_pecker.kernel.settings import Settings
from celery_pecker.observers.overview import ObserversOverview
from celery_pecker.outbox.overview import OutboxOverview, OutboxSummary
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.metrics.measures import ReadCollector, families
from celery_pecker.surfaces.views import alarms, observers, schedules
from celery_pecker.surfaces.views.model import Measure
from celery_pecker.surfaces.views.outbox import OUTBOX

OUTBOX_FRESH = 5.0
"""Seconds for which figures are reused: a deep table is counted row by row."""
OUTBOX_LABELS = ("outbox",)


class Outboxes(ReadCollector):
    """Figures of outboxes; may be asked by several threads at once.

    Of one whose server is away, or does not answer in time, `celery_pecker_outbox_up`
    is 0 and there are no other figures.
    """

    def __init__(self, settings: Mapping[str, Settings]) -> None:
        """Take the settings of outboxes by their names; they are read when asked."""
        self._databases = {
            name: Database.of(one, role="metrics") for name, one in settings.items()
        }
        self._queries = ParallelQueries(
            {name: OutboxOverview(one).summary for name, one in self._databases.items()}
        )
        super().__init__(self._figures, fresh=OUTBOX_FRESH)

    def _figures(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "celery_pecker_outbox_up",
            "Whether the outbox could be read",
            labels=OUTBOX_LABELS,
        )
        read: dict[tuple[str], OutboxSummary] = {}
        for name, answer in self._queries.ask().items():
            if isinstance(answer, OutboxSummary):
                read[name,] = answer
            up.add_metric([name], float((name,) in read))
        yield up
        yield from families(OUTBOX.measures, read, OUTBOX_LABELS)

    def close(self) -> None:
        """Close the connections."""
        for database in self._databases.values():
            database.close()

    def abandon(self) -> None:
        """Drop the connections in a fork of their owner."""
        for database in self._databases.values():
            database.abandon()


MOST_SERIES = 200
"""Entries, at most, that have series of their own."""
FRESH = 1.0
"""Seconds for which figures are reused."""
OBSERVERS_FRESH = 5.0
"""The same of observers: counting them reads the whole table."""


class TableCollector(ReadCollector):
    """A collector over the tables; may be asked by several threads at once.

    While PostgreSQL is away ``celery_pecker_up`` is 0 and there are no other figures: a
    figure that may be hours old is worse than none. `outboxes` are the settings of each
    outbox by its name; by default the one in the same schema.
    """

    def __init__(
        self, settings: Settings, outboxes: Mapping[str, Settings] | None = None
    ) -> None:
        database = Database.of(settings, role="metrics")
        seldom = LastRead(ObserversOverview(database).summary, OBSERVERS_FRESH)
        alarms_overview = AlarmsOverview(database)
        self._overview = Overview(database)
        self._outboxes = Outboxes(outboxes or {"default": settings})
        self._views: tuple[tuple[Iterable[Measure], Callable[[], Any]], ...] = (
            (schedules.MEASURES, self._entries),
            (observers.MEASURES, seldom),
            (alarms.MEASURES, lambda: alarms.summary_of(alarms_overview)),
        )
        """What is read over one connection, in one turn."""
        super().__init__(self._figures, fresh=FRESH)

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
            read = [(measures, summary()) for measures, summary in self._views]
        except PeckerError:
            yield up(False)
        else:
            yield up(True)
            for measures, summary in read:
                yield from families(measures, {(): summary})
        yield from self._outboxes.collect()

    def _entries(self) -> schedules.SchedulesSummary:
        totals = self._overview.totals()
        few = totals.entries <= MOST_SERIES
        rows = self._overview.page(limit=MOST_SERIES).rows if few else []
        return schedules.SchedulesSummary(totals, rows)


def up(read: bool) -> Metric:
    """Return the figure `up`: whether there are others."""
    return GaugeMetricFamily(
        "celery_pecker_up",
        "Whether the tables of celery-pecker could be read",
        value=float(read),
    )
