"""Prometheus sees where observers are and what room their hosts have."""

from __future__ import annotations

import psycopg
from prometheus_client import CollectorRegistry

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.last_read import LastRead
from celery_pecker.kernel.settings import Settings
from celery_pecker.observers.model import CountRow, Place
from celery_pecker.observers.overview import ObserversOverview, Which, summed, totals
from celery_pecker.surfaces.metrics import TableCollector, tables
from celery_pecker.surfaces.metrics.measures import families
from celery_pecker.surfaces.views import observers
from celery_pecker.testing.manual import ManualClock
from tests.integration.cli.observer_rows import write_observers


def read(dsn: str) -> dict[tuple[str, ...], float]:
    """Return the figures of observers by name and labels."""
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
            if "observer" in sample.name
        }
    finally:
        collector.close()


def test_figures_are_those_of_the_tables(dsn: str) -> None:
    """By kind and place, with 0; hosts by state; how long the oldest has waited."""
    assert read(dsn)["observer_hosts_capacity",] == 0
    write_observers(dsn)
    found = read(dsn)
    for name, value in (
        (("observers", "watch", "running"), 1),
        (("observers", "watch", "retrying"), 1),
        (("observers", "watch", "stopping"), 1),
        (("observers", "watch", "waiting"), 1),
        (("observers", "watch", "parked"), 0),
        (("observers", "heavy", "parked"), 1),
        (("observers_weight", "watch"), 5),
        (("observers_moves", "watch"), 3),
        (("observer_hosts", "up"), 1),
        (("observer_hosts", "draining"), 1),
        (("observer_hosts", "lapsed"), 1),
        (("observer_hosts_capacity",), 5),
        (("observer_hosts_held",), 4),
        (("observer_hosts_free",), 1),
    ):
        assert found[name] == value, name
    assert found["observers_oldest_waiting_seconds",] >= 90
    assert found["observer_notices_failing",] == 0
    assert found["observer_notices_failing_seconds",] == 0
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_observer_notices (signature, event, held_until, tries,"
            " created_at, last_error) values ('{}', '{}', now(), 7,"
            " now() - interval '1 h', 'NotRegistered: tell')"
        )
    found = read(dsn)
    assert found["observer_notices_failing",] == 1
    assert found["observer_notices_failing_seconds",] >= 3_600


def test_one_that_is_tried_later_does_not_wait_yet(dsn: str) -> None:
    """No host may take it before."""
    write_observers(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update pecker_observers set not_before = now() + interval '1 hour'"
            " where name = 'wait'"
        )
    found = read(dsn)
    assert found["observers", "watch", "waiting"] == 1
    assert found["observers_oldest_waiting_seconds",] == 0
    database = Database.of(Settings(dsn=dsn, app="shop"), role="test")
    overview = ObserversOverview(database)
    assert overview.summary().oldest_waiting is None
    database.close()


def test_a_search_is_for_text(dsn: str) -> None:
    """A percent sign is a letter."""
    write_observers(dsn)
    database = Database.of(Settings(dsn=dsn, app="shop"), role="test")
    overview = ObserversOverview(database)
    assert overview.page(Which(search="%"), limit=9).total == 0
    assert overview.page(Which(search="RETR"), limit=9).total == 1
    database.close()


class Asked:
    """An overview that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def summary(self) -> object:
        """Return that there is nothing."""
        self.times += 1
        return summed([], [])


def test_a_busy_scraper_reads_the_table_every_few_seconds() -> None:
    """Counting reads all of it."""
    asked, clock = Asked(), ManualClock()
    fresh = tables.OBSERVERS_FRESH
    summary = LastRead(asked.summary, fresh, clock=clock)
    for times, seconds in ((1, 0.0), (1, fresh - 0.1), (2, 0.2)):
        clock.advance_us(int(seconds * 1_000_000))
        summary()
        assert asked.times == times


def test_too_many_kinds_are_counted_together() -> None:
    """A metrics system dies of labels long before the observers are many."""
    rows = [
        CountRow(kind=f"kind {number}", place=Place.RUNNING, count=2, weight=3, moves=1)
        for number in range(observers.MOST_KINDS + 1)
    ]
    one = totals(summed(rows, []).kinds)
    assert (one.kind, one.weight, one.moves) == ("", 303, 101)
    count, *_ = families(observers.MEASURES, {(): summed(rows, [])})
    assert {sample.labels["kind"] for sample in count.samples} == {""}
