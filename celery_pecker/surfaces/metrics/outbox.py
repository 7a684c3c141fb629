"""What outboxes hold, read at most every few seconds however often it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.overview import OutboxOverview, OutboxSummary
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.surfaces.metrics.measures import ReadCollector, families
from celery_pecker.surfaces.views.outbox import OUTBOX

FRESH = 5.0
"""Seconds for which figures are reused: a deep table is counted row by row."""
LABELS = ("outbox",)


class Outboxes(ReadCollector):
    """Figures of outboxes; may be asked by several threads at once.

    Of one whose server is away, or does not answer in time, `celery_pecker_outbox_up`
    is 0 and there are no other figures.
    """

    def __init__(
        self, databases: Mapping[str, Database], *, clock: Clock = SYSTEM
    ) -> None:
        self._databases = databases
        self._queries = ParallelQueries(
            {name: OutboxOverview(one).summary for name, one in databases.items()}
        )
        super().__init__(self._figures, fresh=FRESH, clock=clock)

    @classmethod
    def of(cls, settings: Mapping[str, Settings]) -> Outboxes:
        """Return the figures of outboxes by their names, read when first asked."""
        return cls(
            {name: Database.of(one, role="metrics") for name, one in settings.items()}
        )

    def _figures(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "celery_pecker_outbox_up", "Whether the outbox could be read", labels=LABELS
        )
        read: dict[tuple[str], OutboxSummary] = {}
        for name, answer in self._queries.ask().items():
            if isinstance(answer, OutboxSummary):
                read[name,] = answer
            up.add_metric([name], float((name,) in read))
        yield up
        yield from families(OUTBOX.measures, read, LABELS)

    def close(self) -> None:
        """Close the connections."""
        for database in self._databases.values():
            database.close()

    def abandon(self) -> None:
        """Drop the connections in a fork of their owner."""
        for database in self._databases.values():
            database.abandon()
