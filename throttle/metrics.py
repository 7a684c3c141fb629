"""Figures for Prometheus: the store's, the same from each process.

One process of a system is enough: Flower's ``/metrics`` has them, and `register` puts
them into the registry of any process that is scraped anyway. While the store is away
``throttle_up`` is 0 and of the others only the limits are exported: a figure that is
minutes old is worse than none.

Workers are not labels: they come and go, and each would leave series behind. Tenants
are, for what is held now, up to `MOST_TENANTS` of a database.

Needs ``prometheus-client`` (the extra ``metrics``); Flower brings it along.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import NamedTuple

from celery_pecker.surfaces.views.model import Each, Measure, Samples
from throttle.errors import Misconfigured
from throttle.overview import Picture, Sampler, Status, Sum, open_store
from throttle.settings import Settings

if find_spec("prometheus_client") is None:
    raise Misconfigured(
        "prometheus-client is not installed, which the metrics of throttle need:"
        " pip install 'celery-pecker[metrics]'"
    )

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import Metric

from celery_pecker.surfaces.metrics import measures

MOST_TENANTS = 20


class Sums:
    """What all workers have counted since this process began to look."""

    def __init__(self) -> None:
        self.dropped = Sum()
        self._admissions: defaultdict[tuple[str, str], Sum] = defaultdict(Sum)

    def add(self, databases: Iterable[Status]) -> None:
        """Add what is new at a look."""
        dropped: dict[str, int] = {}
        for status in databases:
            for kind in ("admitted", "would_hold", "parked"):
                counts = {worker.id: getattr(worker, kind) for worker in status.workers}
                self._admissions[status.name, kind].add(counts)
            # Each worker tells it of its process, in every database
            dropped |= {worker.id: worker.dropped for worker in status.workers}
        self.dropped.add(dropped)

    def of(self, database: str, kind: str) -> int:
        """Return a sum."""
        return self._admissions[database, kind].total


class Summary(NamedTuple):
    """What the figures are made of."""

    picture: Picture
    sums: Sums

    @property
    def databases(self) -> tuple[Status, ...]:
        """The databases that are counted or have a limit."""
        return self.picture.databases


_of = Each("databases", {"database": "name"})


def _limited(field: str) -> Callable[[Status, Summary], float | None]:
    """Return what reads a field of databases that have a limit."""
    return lambda one, _: None if one.operations is None else getattr(one, field)


def _sum(kind: str, text: str) -> Measure:
    def read(one: Status, all_: Summary) -> float:
        return all_.sums.of(one.name, kind)

    return _of(f"{kind}_tasks", text, read, counter=True)


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
        "sums.dropped.total",
        counter=True,
    ),
)


def families(picture: Picture, sums: Sums) -> Iterator[Metric]:
    """Yield the figures of a picture."""
    if not picture.away:
        sums.add(picture.databases)
    yield from measures.families(
        ALWAYS if picture.away else MEASURES,
        {(): Summary(picture, sums)},
        prefix="throttle",
    )


class ThrottleCollector(measures.ReadCollector):
    """Asks the store when it is scraped, for half a second at most."""

    def __init__(self, sampler: Sampler) -> None:
        self._sums = Sums()
        super().__init__(lambda: families(sampler.sample(), self._sums), fresh=0.0)


def register(
    settings: Settings, registry: CollectorRegistry = REGISTRY
) -> ThrottleCollector:
    """Register the figures of the store that the settings name.

    Raises Misconfigured if they name none, ValueError if it tells them already.
    """
    made = ThrottleCollector(Sampler(open_store(settings), settings))
    registry.register(made)
    return made
