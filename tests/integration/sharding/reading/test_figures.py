"""Prometheus is told of jobs what the tables say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from prometheus_client import CollectorRegistry

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.metrics import register
from tests.integration.sharding.reading.written import Written

DOCS = Path(__file__).parents[4] / "docs"
NAMED = re.compile(r"celery_sharding_\w+")


@pytest.fixture
def app(dsn: str) -> Iterator[Celery]:
    """Give an app on the test's database."""
    made = Celery("figures", broker="memory://", set_as_current=False)
    made.conf.update(pecker_dsn=dsn)
    yield made
    made.close()


@pytest.fixture
def registry(app: Celery) -> CollectorRegistry:
    """Give a registry with the figures of the app."""
    made = CollectorRegistry()
    register(app, made)
    return made


@pytest.fixture
def now_written(dsn: str) -> Iterator[Written]:
    """Give what writes rows, as of now."""
    rows = Written(dsn, SYSTEM.now())
    yield rows
    rows.close()


def test_jobs_are_counted_as_they_stand(
    registry: CollectorRegistry, now_written: Written
) -> None:
    """By stage, with their items, and what waits for a sweep."""
    rows = now_written
    running = rows.job("a", submitted_at=rows.ago(3_600))
    rows.job("b", stage="submitted")
    rows.job("c", paused=True)
    rows.job("d", stage="ended", outcome="failed", ended_at=rows.ago(60))
    rows.row(
        "layers", job=running, layer=0, total=10, shards=2, open=1, done=3, failed=2
    )
    rows.row("tickets", job=running, ticket=1, state="held", leased_until=rows.ago(-60))
    rows.row("tickets", job=running, ticket=2, state="held", leased_until=rows.ago(30))
    rows.row(
        "tickets",
        job=running,
        ticket=3,
        state="sent",
        sent_at=rows.ago(60),
        resend_at=rows.ago(50),
    )

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"celery_sharding_{name}", labels)
        assert found is not None
        return found

    assert value("up") == 1
    assert value("jobs", stage="sharding") == 2
    assert value("jobs", stage="submitted") == 1
    assert value("jobs", stage="posting") == 0
    assert value("jobs_paused") == 1
    assert value("jobs_ended_last_day", outcome="failed") == 1
    assert 3_600 <= value("oldest_job_seconds") < 3_700
    items = [value("items", state=name) for name in ("total", "done", "failed")]
    assert items == [10, 3, 2]
    assert (value("tickets", state="held"), value("tickets", state="sent")) == (1, 1)
    assert value("overdue_tickets") == 2
    assert 50 <= value("overdue_seconds") < 150


def test_without_a_database_only_that_is_said() -> None:
    """A figure that may be hours old is worse than none."""
    app = Celery("away", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="postgresql://x@127.0.0.1:1/x")
    registry = CollectorRegistry()
    register(app, registry)
    found = {
        sample.name: sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    assert found == {"celery_sharding_up": 0.0}
    app.close()


def test_reference_and_alerts_name_figures_that_exist(
    registry: CollectorRegistry,
) -> None:
    """An alert on a figure that does not exist never fires."""
    existing = {family.name for family in registry.collect()}
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert {*NAMED.findall(page)} == existing
    alerts = (DOCS / "monitoring" / "alerts.yml").read_text(encoding="utf-8")
    assert {*NAMED.findall(alerts)} <= existing
