"""Figures of sharded jobs for Prometheus: the ledger's, the same from each process.

Flower's ``/metrics`` has them, and `register` puts them into the registry of any
process that is scraped. One process of a system is enough: take ``max``, not ``sum``.
While PostgreSQL is away ``celery_sharding_up`` is 0 and nothing else is there.

Neither jobs nor tasks are labels: there may be any number of them.

Needs ``prometheus-client`` (the extra ``metrics``); Flower brings it along.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from celery_pecker.surfaces.views.model import Measure
from celery_sharding.errors import Misconfigured, PeckerError
from celery_sharding.ledger import at
from celery_sharding.views import MEASURES

if find_spec("prometheus_client") is None:
    raise Misconfigured(
        "prometheus-client is not installed, which the metrics of sharded jobs need:"
        " pip install 'celery-pecker[metrics]'"
    )

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import Metric

from celery_pecker.surfaces.metrics.measures import ReadCollector, families

FRESH = 1.0
"""Seconds for which what was read is used once more."""


UP = Measure("up", "Whether the tables of sharded jobs could be read", bool)


def register(app: Any, registry: CollectorRegistry = REGISTRY) -> ReadCollector:
    """Add the figures of an app's jobs to a registry, once for each registry."""
    made = ReadCollector(lambda: read(app), fresh=FRESH)
    registry.register(made)
    return made


def read(app: Any) -> Iterator[Metric]:
    """Read the figures of an app's jobs, in two statements."""
    try:
        figures = at(app, role="metrics").reading.figures()
    except PeckerError:
        figures = None
    measures = (UP, *MEASURES) if figures else (UP,)
    yield from families(measures, {(): figures}, prefix="celery_sharding")
