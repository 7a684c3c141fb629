"""Figures for Prometheus: those of the tables, and what this process did.

    tables    the same from each process: entries, overdue, paused, missed, replicas.
              On our own port and on Flower's ``/metrics`` (`TableCollector`)
    process   of the scheduler or worker that answers: wake-ups, slots, lateness, runs.
              On our own port only
    measures  measures of views as figures, of other packages too
    server    that port (`pecker_metrics`): ``/metrics``, and two questions for
              probes, ``/live`` and ``/pace``

Names begin with ``celery_pecker_``, durations are seconds, counters end in ``_total``.
The label ``name`` is a task's name, as in celery-exporter, so that both can be joined;
``entry`` is ours. Entries have series of their own only while there are at most
`tables.MOST_SERIES`: a schedule of 10,000 entries must not make 30,000 series.

Needs ``prometheus-client`` (the extra ``metrics``); Flower brings it along.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from celery_pecker.surfaces.metrics.server import Server
    from celery_pecker.surfaces.metrics.tables import TableCollector

if find_spec("prometheus_client") is None:
    raise Misconfigured(
        "prometheus-client is not installed, which pecker_metrics and Flower's"
        " /metrics need: pip install 'celery-pecker[metrics]', or set"
        " no pecker_metrics"
    )

__all__ = ["Server", "TableCollector"]
# Figures of other packages need neither our tables nor our port.
__getattr__, __dir__ = lazy_names(
    globals(),
    {"server": "Server", "tables": "TableCollector"},
)
