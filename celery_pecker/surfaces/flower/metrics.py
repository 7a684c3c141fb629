"""Our figures on Flower's ``/metrics``.

Flower collects on its loop, and a database that hangs would hold up every page of
Flower: so ours are read before, on a thread of their own and for a bounded time, and
what is collected on the loop is what was read.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

from celery import Celery
from flower.views.monitor import Metrics
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import settings_of
from celery_pecker.surfaces.flower.pages import Page, registered
from celery_pecker.surfaces.metrics import TableCollector
from celery_pecker.surfaces.metrics.tables import up

READ_TIMEOUT = 3.0
"""Seconds until a scrape goes without our figures; Prometheus gives all of it ten."""


@dataclass(eq=False)
class Part:
    """Figures of one kind, read on a thread of their own; one reading at a time."""

    read: Callable[[], tuple[Metric, ...]]
    otherwise: tuple[Metric, ...] = ()
    metrics: tuple[Metric, ...] = ()
    _reading: asyncio.Future[tuple[Metric, ...]] | None = None

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pecker-metrics")

    async def refresh(self) -> None:
        """Have figures of now, or say that there are none."""
        if self._reading is None or self._reading.done():
            loop = asyncio.get_running_loop()
            self._reading = loop.run_in_executor(self._thread, self.read)
        done, _ = await asyncio.wait({self._reading}, timeout=READ_TIMEOUT)
        self.metrics = self._reading.result() if done else self.otherwise


class Figures(Collector):
    """The last figures of an app's tables, and those of other pages."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._tables: TableCollector | None = None
        # Others may have their pages here without having schedules: nothing is down.
        wanted = bool(app.conf.get("pecker_dsn"))
        self._parts = [Part(self._read, (up(False),))] if wanted else []
        for page in registered():
            if page.figures is not None:
                self._parts.append(Part(partial(_figures_of, page, app)))
        REGISTRY.register(self)

    def describe(self) -> Iterable[Metric]:
        """Name nothing: at registration the tables need not be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield what was read. Never waits."""
        for part in self._parts:
            yield from part.metrics

    async def refresh(self) -> None:
        """Have figures of now; what hangs holds up nothing beside it."""
        await asyncio.gather(*(part.refresh() for part in self._parts))

    def _read(self) -> tuple[Metric, ...]:
        try:
            if self._tables is None:
                settings = Settings.read(self._app.conf, main=self._app.main)
                outboxes = settings_of(self._app, settings)
                self._tables = TableCollector(settings, outboxes)
            return tuple(self._tables.collect())
        except Misconfigured:
            return (up(False),)


def _figures_of(page: Page, app: Celery) -> tuple[Metric, ...]:
    figures_of, none = page.figures, tuple[Metric, ...]()
    assert figures_of is not None  # noqa: S101 — asked before
    return user_code.call(
        f"figures of {page.name}", none, lambda: tuple(figures_of(app))
    )


@cache
def figures(app: Celery) -> Figures:
    """Return the figures of an app."""
    return Figures(app)


class MetricsView(Metrics):
    """Flower's metrics, and among them ours."""

    async def get(self) -> None:
        """Read ours, then let Flower collect."""
        await figures(self.capp).refresh()
        await super().get()
