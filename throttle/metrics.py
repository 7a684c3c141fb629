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

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import NamedTuple

from celery_pecker.surfaces.views.model import Measure, Samples, each
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
from prometheus_client.core import Metric

from celery_pecker.surfaces.metrics import measures

MOST_TENANTS = 20
MOST_GONE = 100
"""Workers that are remembered though they were not heard of."""


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


class Summary(NamedTuple):
    """What the figures are made of."""

    picture: Picture
    admissions: Admissions

    @property
    def databases(self) -> tuple[Status, ...]:
        """The databases that are counted or have a limit."""
        return self.picture.databases


def _of(
    name: str, text: str, value: str | Callable[[Status, Summary], float | None]
) -> Measure:
    """Return a measure with a sample for each database."""
    samples = each("databases", ["name"], value)
    return Measure(name, text, samples, labels=("database",))


def _limited(field: str) -> Callable[[Status, Summary], float | None]:
    """Return what reads a field of databases that have a limit."""
    return lambda one, _: None if one.operations is None else getattr(one, field)


def _sum(kind: str, text: str) -> Measure:
    samples = each(
        "databases", ["name"], lambda one, all_: all_.admissions.of(one.name, kind)
    )
    name = f"{kind}_tasks"
    return Measure(name, text, samples, labels=("database",), counter=True)


def _by_tenant(summary: Summary) -> Samples:
    for one in summary.databases:
        for tenant in one.tenants[:MOST_TENANTS]:
            yield (one.name, tenant.name), tenant.held


ALWAYS = (
    Measure(
        "up",
        "Whether Redis, or the service before it, could be read",
        lambda all_: not all_.picture.away,
    ),
    _of(
        "limit_operations_per_second",
        "What a database bears, by the settings",
        "operations",
    ),
)
"""What is told while the store is away, too."""
MEASURES = (
    *ALWAYS,
    _of(
        "limit_in_force_ratio",
        "So much of the limit is in force: the second signal's word",
        _limited("factor"),
    ),
    _of(
        "traffic_operations_per_second",
        "What a database gets, by the estimator of the settings",
        "traffic.operations",
    ),
    _of(
        "outside_operations_per_second",
        "Of the traffic, what no gate holds back",
        "outside.operations",
    ),
    _of(
        "traffic_busy_connections",
        "Seconds of database work per second",
        "traffic.seconds",
    ),
    _of(
        "limit_busy_connections",
        "The limit in seconds of database work per second",
        "seconds",
    ),
    _of(
        "used_ratio",
        "Traffic as a part of the limit in force, of the scarcer of the two",
        _limited("used"),
    ),
    _of("held_tasks", "Tasks that wait", "held"),
    _of("held_bytes", "Their messages", "held_bytes"),
    _of("held_oldest_seconds", "For how long the oldest has waited", "oldest"),
    _of("workers", "Workers heard of", lambda one, _: len(one.workers)),
    Measure(
        "held_tasks_by_tenant",
        f"Tasks that wait, of the {MOST_TENANTS} tenants with most",
        _by_tenant,
        labels=("database", "tenant"),
    ),
    _sum("admitted", "Tasks let in by the workers that were heard of"),
    _sum("would_hold", "Tasks that would have been held, in shadow mode"),
    _sum("parked", "Tasks sent to the parking queue"),
    Measure(
        "dropped_operations",
        "Operations that workers counted and that are in no sum",
        "admissions.dropped",
        counter=True,
    ),
)


def families(picture: Picture, admissions: Admissions) -> Iterator[Metric]:
    """Yield the figures of a picture."""
    if not picture.away:
        for status in picture.databases:
            admissions.add(status)
        every = (worker for status in picture.databases for worker in status.workers)
        admissions.drop({worker.id: worker.dropped for worker in every})
    yield from measures.families(
        ALWAYS if picture.away else MEASURES,
        {(): Summary(picture, admissions)},
        prefix="throttle",
    )


class ThrottleCollector(measures.ReadCollector):
    """Asks the store when it is scraped, for half a second at most."""

    def __init__(self, sampler: Sampler) -> None:
        self._admissions = Admissions()
        super().__init__(lambda: families(sampler.sample(), self._admissions))


def register(
    settings: Settings, registry: CollectorRegistry = REGISTRY
) -> ThrottleCollector:
    """Register the figures of the store that the settings name.

    Raises Misconfigured if they name none, ValueError if it tells them already.
    """
    made = ThrottleCollector(Sampler(open_store(settings), settings))
    registry.register(made)
    return made
