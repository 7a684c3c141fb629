"""Prometheus sees what rings, and which target takes nothing."""

from __future__ import annotations

import psycopg
from prometheus_client import CollectorRegistry

from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.metrics import TableCollector
from tests.integration.cli.test_alarms import RINGS


def read(dsn: str) -> dict[tuple[str, ...], float]:
    """Return the figures of alarms by name and label."""
    registry = CollectorRegistry()
    collector = TableCollector(Settings(dsn=dsn, app="shop"))
    registry.register(collector)
    try:
        return {
            (sample.name.removeprefix("celery_pecker_"), *sample.labels.values()): (
                sample.value
            )
            for family in registry.collect()
            for sample in family.samples
            if "alarm" in sample.name and not sample.name.endswith("_created")
        }
    finally:
        collector.close()


def test_figures_are_those_of_the_tables(dsn: str) -> None:
    """None before a replica has looked; then by rule, and by target."""
    assert read(dsn) == {}
    with psycopg.connect(dsn) as connection:
        connection.execute(RINGS)
    found = read(dsn)
    assert 0 <= found.pop(("alarms_looked_seconds", "silent")) < 3_600
    assert found == {
        ("alarms_ringing", "silent"): 1.0,
        ("alarm_notices_sent_total", "chat"): 0.0,
        ("alarm_notices_waiting", "chat"): 1.0,
        ("alarm_target_failures", "chat"): 3.0,
    }
