"""Flower's loop never waits for our figures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from celery import Celery
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.surfaces.flower import metrics


class Tables:
    """A database that hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def collect(self) -> Iterator[Metric]:
        """Answer once it may."""
        self.go.wait(30.0)
        yield GaugeMetricFamily("celery_pecker_up", "as read", value=1.0)


def test_a_database_that_hangs_holds_up_no_scrape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told as away after a while; one reading goes on, and is told when done."""
    tables = Tables()
    monkeypatch.setattr(metrics, "TableCollector", lambda *_: tables)
    monkeypatch.setattr(metrics, "READ_TIMEOUT", 0.05)
    app = Celery("figures")
    app.conf.pecker_dsn = "postgresql://nobody@localhost/nothing"
    mine = metrics.Figures(app)

    async def scrape() -> str:
        await mine.refresh()
        return generate_latest().decode()

    async def scrapes() -> None:
        for _ in range(2):
            assert "celery_pecker_up 0.0" in await scrape()
        assert mine._parts[0]._thread._work_queue.empty()
        tables.go.set()
        monkeypatch.setattr(metrics, "READ_TIMEOUT", 20.0)
        assert "celery_pecker_up 1.0" in await scrape()

    try:
        asyncio.run(scrapes())
    finally:
        tables.go.set()
        REGISTRY.unregister(mine)
