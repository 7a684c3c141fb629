"""Prometheus sees how deep an outbox is, and that one of several is away."""

from __future__ import annotations

import psycopg
from prometheus_client import CollectorRegistry

from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.metrics import TableCollector
from tests.integration.outbox_relay.rows import record

RELAY = (
    "insert into pecker_outbox_relays (holder, host, pid, started_at, seen_at, sent,"
    " retried, parked, broker, rates) values (gen_random_uuid(), 'here', 7, now(),"
    """ now(), 9, 2, 1, 'away', '{"app.work": 2.5}')"""
)


def test_each_outbox_is_told_of(dsn: str) -> None:
    """What waits, what is parked, and what relays did."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        record(connection, 3)
        record(connection, 2, delay=3_600.0)
        [parked] = record(connection, 1)
        connection.execute(
            "update pecker_outbox set parked_at = now() where id = %s", [parked]
        )
        connection.execute(
            "update pecker_outbox set mode = 1, attempt = 4 where id = ("
            "select max(id) from pecker_outbox where due_at is not null)"
        )
        connection.execute(RELAY)
    here = Settings(dsn=dsn, app="shop")
    gone = Settings(dsn="postgresql://127.0.0.1:1/nowhere", app="shop")
    registry = CollectorRegistry()
    read = TableCollector(here, {"default": here, "eu": gone})
    registry.register(read)
    found = {
        (sample.name, sample.labels.get("outbox")): sample.value
        for family in registry.collect()
        for sample in family.samples
        if "outbox" in sample.name
    }
    read.close()
    for name, value in (
        *(("up", 1), ("depth", 3), ("later", 2), ("parked", 1), ("rate", 2.5)),
        *(("relays", 1), ("relays_away", 1), ("attempts", 4)),
        *(("sent_total", 9), ("retried_total", 2), ("refused_total", 1)),
    ):
        assert found[f"celery_pecker_outbox_{name}", "default"] == value, name
    assert found["celery_pecker_outbox_oldest_seconds", "default"] > 0
    assert {name for name, outbox in found if outbox == "eu"} == {
        "celery_pecker_outbox_up"
    }
    assert found["celery_pecker_outbox_up", "eu"] == 0
