"""Figures of sharded jobs for Prometheus: the ledger's, the same from each process.

Flower's ``/metrics`` has them, and `register` puts them into the registry of any
process that is scraped. One process of a system is enough: take ``max``, not ``sum``.
While PostgreSQL is away ``celery_sharding_up`` is 0 and nothing else is there.

Neither jobs nor tasks are labels: there may be any number of them.

Needs ``prometheus-client`` (the extra ``metrics``); Flower brings it along.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_sharding.errors import Misconfigured, PeckerError
from celery_sharding.ledger import at
from celery_sharding.ledger.figures import JobFigures

if find_spec("prometheus_client") is None:
    message = (
        "prometheus-client is not installed, which the metrics of sharded jobs need:"
        " pip install 'celery-pecker[metrics]'"
    )
    raise Misconfigured(message)

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

FRESH = 1.0
"""Seconds for which what was read is used once more."""


class JobCollector(Collector):
    """A collector over an app's ledger; may be asked by several threads at once."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._reading = threading.Lock()
        self._metrics: tuple[Metric, ...] = ()
        self._read_at: float | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration the tables need not be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now, or of the last second."""
        with self._reading:
            now = monotonic()
            if self._read_at is None or now - self._read_at >= FRESH:
                self._metrics = tuple(read(self._app))
                self._read_at = now
            metrics = self._metrics
        yield from metrics


def register(app: Any, registry: CollectorRegistry = REGISTRY) -> JobCollector:
    """Add the figures of an app's jobs to a registry, once for each registry."""
    made = JobCollector(app)
    registry.register(made)
    return made


def read(app: Any) -> Iterator[Metric]:
    """Read the figures of an app's jobs, in two statements."""
    try:
        figures = at(app, role="metrics").reading.figures()
    except PeckerError:
        figures = None
    yield GaugeMetricFamily(
        "celery_sharding_up",
        "Whether the tables of sharded jobs could be read",
        value=float(figures is not None),
    )
    if figures is not None:
        yield from _metrics(figures)


def _metrics(figures: JobFigures) -> Iterator[Metric]:
    for name, documentation, label, values in (
        ("jobs", "Open jobs", "stage", figures.stages),
        (
            "jobs_ended_last_day",
            "Jobs that ended within a day",
            "outcome",
            figures.outcomes,
        ),
        ("items", "Items of jobs whose shards run or wait", "state", figures.items),
        ("tickets", "Rights to run shards", "state", figures.tickets),
    ):
        made = GaugeMetricFamily(
            f"celery_sharding_{name}", documentation, labels=(label,)
        )
        for key, value in values.items():
            made.add_metric((key,), float(value))
        yield made
    single: tuple[tuple[str, str, float], ...] = (
        ("jobs_paused", "Open jobs that are paused", figures.paused),
        ("oldest_job_seconds", "Age of the oldest open job", figures.oldest),
        (
            "overdue_tickets",
            "Tickets whose lease or message was lost and not yet taken up",
            figures.overdue,
        ),
        (
            "overdue_seconds",
            "For how long the most overdue ticket has waited for a sweep",
            figures.overdue_seconds,
        ),
        ("executors", "Live workers that run shards", figures.executors),
        ("slots", "Shards that they run at once", figures.slots),
    )
    for name, documentation, figure in single:
        yield GaugeMetricFamily(
            f"celery_sharding_{name}", documentation, value=float(figure)
        )
