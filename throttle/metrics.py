"""Figures for Prometheus: the store's, the same from each process.

One process of a system is enough: Flower's ``/metrics`` has them, and `register` puts
them into the registry of any process that is scraped anyway. While the store is away
``throttle_up`` is 0 and of the others only the limits are exported: a figure that is
minutes old is worse than none.

Workers are not labels: they come and go, and each would leave series behind. Tenants
are, for what is held now, up to `MOST_TENANTS` of a database.

Needs ``prometheus-client`` (the extra ``metrics``); Flower brings it along.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec

from throttle.errors import Misconfigured
from throttle.overview import Picture, Sampler, Status, open_store
from throttle.settings import Settings

if find_spec("prometheus_client") is None:
    message = (
        "prometheus-client is not installed, which the metrics of throttle need:"
        " pip install 'celery-pecker[metrics]'"
    )
    raise Misconfigured(message)

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

MOST_TENANTS = 20
MOST_GONE = 100
"""Workers that are remembered though they were not heard of."""
DATABASE = ("database",)


class Admissions:
    """Sums that never go back, of counts that each worker begins anew.

    A worker that goes takes its count with it; Prometheus would take the smaller sum
    for a restart and the next for a rush. For one thread.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str, str], int] = {}
        self.dropped = 0
        self._dropped: dict[str, int] = {}

    def add(self, status: Status) -> None:
        """Add what workers have counted since the last call to the sums."""
        seen = {}
        for worker in status.workers:
            for kind, count in (
                ("admitted", worker.admitted),
                ("would_hold", worker.would_hold),
                ("parked", worker.parked),
            ):
                key = (status.name, kind, worker.id)
                total = (status.name, kind)
                new = max(count - self._last.get(key, 0), 0)
                self._sums[total] = self._sums.get(total, 0) + new
                seen[key] = count
        if status.workers:
            gone = [k for k in self._last if k[0] == status.name and k not in seen]
            for key in gone[: max(len(gone) - len(seen), 0)]:
                del self._last[key]  # old lives: bounded by the live ones
        self._last.update(seen)

    def drop(self, counts: Mapping[str, int]) -> None:
        """Add what each worker has dropped of all databases, by id."""
        last = self._dropped
        self.dropped += sum(
            max(count - last.get(worker, 0), 0) for worker, count in counts.items()
        )
        # A worker that one read missed returns; old lives are bounded
        gone = [worker for worker in last if worker not in counts]
        for worker in gone[: max(len(gone) - MOST_GONE, 0)]:
            del last[worker]
        last.update(counts)

    def of(self, database: str, kind: str) -> int:
        """Return a sum."""
        return self._sums.get((database, kind), 0)


def families(picture: Picture, admissions: Admissions) -> tuple[Metric, ...]:
    """Return the figures of a picture."""
    up = GaugeMetricFamily(
        "throttle_up",
        "Whether Redis, or the service before it, could be read",
        value=float(not picture.away),
    )
    limits = [
        _gauge(
            "throttle_limit_operations_per_second",
            "What a database bears, by the settings",
            (
                ((one.name,), one.operations)
                for one in picture.databases
                if one.operations is not None
            ),
        )
    ]
    if picture.away:
        return (up, *limits)
    for status in picture.databases:
        admissions.add(status)
    every = (worker for status in picture.databases for worker in status.workers)
    admissions.drop({worker.id: worker.dropped for worker in every})
    return (
        up,
        *limits,
        *_gauges(picture.databases),
        *_sums(picture.databases, admissions),
    )


def _gauges(databases: Iterable[Status]) -> Iterator[Metric]:
    every = tuple(databases)
    for name, help_text, values in (
        (
            "limit_in_force_ratio",
            "So much of the limit is in force: the second signal's word",
            [(one, one.factor) for one in every if one.operations is not None],
        ),
        (
            "traffic_operations_per_second",
            "What a database gets, by the estimator of the settings",
            [(one, one.traffic.operations) for one in every],
        ),
        (
            "outside_operations_per_second",
            "Of the traffic, what no gate holds back",
            [(one, one.outside.operations) for one in every],
        ),
        (
            "traffic_busy_connections",
            "Seconds of database work per second",
            [(one, one.traffic.seconds) for one in every],
        ),
        (
            "limit_busy_connections",
            "The limit in seconds of database work per second",
            [(one, one.seconds) for one in every if one.seconds is not None],
        ),
        (
            "used_ratio",
            "Traffic as a part of the limit in force, of the scarcer of the two",
            [(one, one.used) for one in every if one.operations is not None],
        ),
        ("held_tasks", "Tasks that wait", [(one, one.held) for one in every]),
        ("held_bytes", "Their messages", [(one, one.held_bytes) for one in every]),
        (
            "held_oldest_seconds",
            "For how long the oldest has waited",
            [(one, one.oldest) for one in every],
        ),
        ("workers", "Workers heard of", [(one, len(one.workers)) for one in every]),
    ):
        yield _gauge(
            f"throttle_{name}",
            help_text,
            (((one.name,), value) for one, value in values),
        )
    tenants = GaugeMetricFamily(
        "throttle_held_tasks_by_tenant",
        f"Tasks that wait, of the {MOST_TENANTS} tenants with most",
        labels=("database", "tenant"),
    )
    for one in every:
        for tenant in one.tenants[:MOST_TENANTS]:
            tenants.add_metric((one.name, tenant.name), float(tenant.held))
    yield tenants


def _sums(databases: Iterable[Status], admissions: Admissions) -> Iterator[Metric]:
    names = [one.name for one in databases]
    for kind, help_text in (
        ("admitted", "Tasks let in by the workers that were heard of"),
        ("would_hold", "Tasks that would have been held, in shadow mode"),
        ("parked", "Tasks sent to the parking queue"),
    ):
        family = CounterMetricFamily(
            f"throttle_{kind}_tasks", help_text, labels=DATABASE
        )
        for name in names:
            family.add_metric((name,), float(admissions.of(name, kind)))
        yield family
    yield CounterMetricFamily(
        "throttle_dropped_operations",
        "Operations that workers counted and that are in no sum",
        value=float(admissions.dropped),
    )


def _gauge(
    name: str, help_text: str, values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=DATABASE)
    for labels, value in values:
        family.add_metric(labels, float(value))
    return family


class ThrottleCollector(Collector):
    """Asks the store when it is scraped, for half a second at most."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._admissions = Admissions()
        self._turn = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Name nothing: at registration the store need not be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now."""
        with self._turn:
            yield from families(self._sampler.sample(), self._admissions)


def register(
    settings: Settings, registry: CollectorRegistry = REGISTRY
) -> ThrottleCollector:
    """Register the figures of the store that the settings name.

    Raises Misconfigured if they name none, ValueError if it tells them already.
    """
    made = ThrottleCollector(Sampler(open_store(settings), settings))
    registry.register(made)
    return made
