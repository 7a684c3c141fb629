"""What outboxes hold, read at most every few seconds however often it is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.overview import Overview, Summary
from celery_pecker.outbox.parallel_queries import ParallelQueries

FRESH = 5.0
"""Seconds for which figures are reused: a deep table is counted row by row."""
LABELS = ("outbox",)


class Outboxes:
    """Figures of outboxes; may be asked by several threads at once.

    Of one whose server is away, or does not answer in time, `celery_pecker_outbox_up`
    is 0 and there are no other figures.
    """

    def __init__(
        self, databases: Mapping[str, Database], *, clock: Clock = SYSTEM
    ) -> None:
        self._databases = databases
        self._queries = ParallelQueries(
            {name: Overview(one).summary for name, one in databases.items()}
        )
        self._clock = clock
        self._reading = threading.Lock()
        self._summaries: dict[str, Summary | None] = {}
        self._read_at: float | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Settings]) -> Outboxes:
        """Return the figures of outboxes by their names, read when first asked."""
        return cls(
            {name: Database.of(one, role="metrics") for name, one in settings.items()}
        )

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now, or of the last seconds."""
        self._refresh()
        summaries = dict(self._summaries)
        up = GaugeMetricFamily(
            "celery_pecker_outbox_up", "Whether the outbox could be read", labels=LABELS
        )
        for name, summary in summaries.items():
            up.add_metric([name], float(summary is not None))
        yield up
        read = {name: one for name, one in summaries.items() if one is not None}
        yield from _gauges(read)
        yield from _counters(read)

    def close(self) -> None:
        """Close the connections."""
        for database in self._databases.values():
            database.close()

    def abandon(self) -> None:
        """Drop the connections in a fork of their owner."""
        for database in self._databases.values():
            database.abandon()

    def _refresh(self) -> None:
        if not self._reading.acquire(blocking=self._read_at is None):
            return
        try:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < FRESH:
                return
            self._summaries = {
                name: answer if isinstance(answer, Summary) else None
                for name, answer in self._queries.ask().items()
            }
            self._read_at = self._clock.monotonic()
        finally:
            self._reading.release()


def _gauges(read: Mapping[str, Summary]) -> Iterator[Metric]:
    for field, text in (
        ("depth", "Messages that are due and not delivered or done"),
        ("later", "Messages that are not due yet"),
        ("parked", "Messages that wait for people"),
        ("oldest_seconds", "For how long the oldest that is due has been due"),
        ("rate", "Messages sent or done per second, lately"),
        ("attempts", "The most attempts that a recorded task has had"),
        ("relays", "Live relays"),
        ("relays_away", "Relays that cannot reach the broker"),
    ):
        family = GaugeMetricFamily(f"celery_pecker_outbox_{field}", text, labels=LABELS)
        for name, summary in read.items():
            family.add_metric([name], _value(summary, field))
        yield family


def _value(summary: Summary, field: str) -> float:
    values = {
        "depth": summary.depth,
        "later": summary.later,
        "parked": summary.parked,
        "oldest_seconds": summary.oldest or 0.0,
        "rate": summary.rate,
        "attempts": max((one.attempt for one in summary.tasks), default=0),
        "relays": len(summary.relays),
        "relays_away": sum(one.broker is not None for one in summary.relays),
    }
    return float(values[field])


def _counters(read: Mapping[str, Summary]) -> Iterator[Metric]:
    """Yield what living relays did since each of them started."""
    labels = ("outbox", "relay")
    for field, text in (
        ("sent", "Messages that a relay sent"),
        ("retried", "Messages in batches that a relay took over"),
        ("refused", "Messages that a relay parked"),
    ):
        family = CounterMetricFamily(
            f"celery_pecker_outbox_{field}", text, labels=labels
        )
        for name, summary in read.items():
            counts: dict[str, int] = {}
            for one in summary.relays:
                place = f"{one.host}:{one.pid}"
                value = one.parked if field == "refused" else getattr(one, field)
                counts[place] = counts.get(place, 0) + value
            for place, count in counts.items():
                family.add_metric([name, place], float(count))
        yield family
