"""Render the measures of views as metric families."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from celery_pecker.kernel.last_read import LastRead
from celery_pecker.surfaces.views.model import Measure


def families(
    measures: Iterable[Measure],
    summaries: Mapping[Any, Any],
    labels: Sequence[str] = (),
    *,
    prefix: str = "celery_pecker",
) -> Iterator[Metric]:
    """Yield a family for each measure.

    `summaries` are what the measures are read from, by a tuple of the values of
    `labels`, which stand before the labels of each measure.
    """
    for measure in measures:
        kind = CounterMetricFamily if measure.counter else GaugeMetricFamily
        family = kind(
            f"{prefix}_{measure.name}",
            measure.help,
            labels=(*labels, *measure.labels),
        )
        for known, summary in summaries.items():
            for values, value in measure.of(summary):
                family.add_metric([*known, *values], float(value))
        yield family


class ReadCollector(Collector):
    """Figures that are read at most every few seconds, by one thread at a time.

    A concurrent request gets the result of the last read, or waits for the first: two
    scrapes that come together after the start would else tell an outage that there is
    not.
    """

    def __init__(self, read: Callable[[], Iterable[Metric]], *, fresh: float) -> None:
        """``fresh``: seconds for which what was read is given again."""
        self._last = LastRead(lambda: tuple(read()), fresh)
        self._reading = threading.Lock()
        self._metrics: tuple[Metric, ...] | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration no server need be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now, or those that are fresh."""
        if self._reading.acquire(blocking=self._metrics is None):
            try:
                self._metrics = self._last()
            finally:
                self._reading.release()
        yield from self._metrics or ()
