"""The dashboard, the alerts and the reference name metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.metrics import TableCollector
from celery_pecker.surfaces.metrics.server import ProcessMetrics

DOCS = Path(__file__).parents[2] / "docs"
NAMED = re.compile(r"celery_pecker_\w+")
ENDINGS = ("_total", "_bucket", "_count", "_sum")


def stem(name: str) -> str:
    """Return a metric's name without what Prometheus appends."""
    return next((name.removesuffix(e) for e in ENDINGS if name.endswith(e)), name)


@pytest.fixture
def existing(dsn: str) -> set[str]:
    """Return every metric that is told, without endings."""
    registry = CollectorRegistry()
    metrics = ProcessMetrics(registry, hostname="here")
    read = TableCollector(Settings(dsn=dsn, app="shop"))
    registry.register(read)
    try:
        return {family.name for family in registry.collect()}
    finally:
        read.close()
        metrics.close()


@pytest.mark.parametrize("page", ["monitoring/dashboard.json", "monitoring/alerts.yml"])
def test_what_is_watched_exists(page: str, existing: set[str]) -> None:
    """A dashboard of metrics that do not exist is an empty dashboard."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if page.endswith("json"):
        json.loads(text)
    named = {stem(name) for name in NAMED.findall(text)}
    assert named, "nothing is watched"
    assert named <= existing


def test_the_reference_names_every_metric(existing: set[str]) -> None:
    """And none that does not exist."""
    text = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert {stem(name) for name in NAMED.findall(text)} == existing
