"""Figures for Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.throttle.incident import SETTINGS, Night, holder, seen
from throttle.metrics import ThrottleCollector
from throttle.model import View
from throttle.overview import MOST_GONE, Sampler
from throttle.settings import Settings


@pytest.fixture
def night() -> Night:
    """Give the store."""
    return Night()


@pytest.fixture
def registry(night: Night) -> CollectorRegistry:
    """Give what is scraped."""
    made = CollectorRegistry()
    made.register(ThrottleCollector(Sampler(night, SETTINGS)))
    return made


def lines(registry: CollectorRegistry) -> list[str]:
    """Return what a scrape gets, without comments."""
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_figures_are_those_of_the_store(registry: CollectorRegistry) -> None:
    """By database; tenants for what waits."""
    assert {
        "throttle_up 1.0",
        'throttle_traffic_operations_per_second{database="main"} 4930.0',
        'throttle_outside_operations_per_second{database="main"} 610.0',
        'throttle_traffic_busy_connections{database="main"} 18.2',
        'throttle_limit_operations_per_second{database="main"} 5000.0',
        'throttle_limit_busy_connections{database="main"} 20.0',
        'throttle_limit_in_force_ratio{database="reports"} 0.5',
        'throttle_used_ratio{database="reports"} 2.825',
        'throttle_held_tasks{database="main"} 1204.0',
        'throttle_held_oldest_seconds{database="main"} 11.4',
        'throttle_held_tasks_by_tenant{database="main",tenant="acme"} 601.0',
        'throttle_workers{database="archive"} 0.0',
        'throttle_admitted_tasks_total{database="main"} 20000.0',
        'throttle_would_hold_tasks_total{database="billing"} 400.0',
        'throttle_parked_tasks_total{database="main"} 120.0',
        "throttle_dropped_operations_total 0.0",
    } <= {*lines(registry)}


def test_while_the_store_is_away_nothing_old_is_told(
    registry: CollectorRegistry, night: Night
) -> None:
    """Only that it is, and the limits, which are settings."""
    lines(registry)
    night.away = "Redis is away"
    told = lines(registry)
    assert "throttle_up 0.0" in told
    assert 'throttle_limit_operations_per_second{database="main"} 5000.0' in told
    assert all(
        line.startswith(("throttle_up ", "throttle_limit_operations")) for line in told
    )


def test_a_sum_never_goes_back(registry: CollectorRegistry, night: Night) -> None:
    """Of workers that go, start anew, are silent for a moment, or come."""

    def total(admitted: Iterable[tuple[str, int]]) -> float:
        night.known = {
            "main": View(
                seen=seen(0.0),
                holders={
                    key: holder(key, 0.1, 5000.0, 20.0, admitted=count)
                    for key, count in admitted
                },
            )
        }
        [line] = [
            one
            for one in lines(registry)
            if "admitted_tasks_total" in one and "main" in one
        ]
        return float(line.split()[-1])

    sums = [
        total([("a", 100), ("b", 50)]),
        total([("a", 110)]),
        total([]),
        total([("a", 112), ("b", 51)]),
        total([("c", 5), ("a", 112)]),
        total([("c", 1)]),
    ]
    assert sums == [150.0, 160.0, 160.0, 163.0, 168.0, 168.0]


def test_what_was_dropped_is_summed_over_workers_once(night: Night) -> None:
    """Each tells it of its process, in every database, and begins at nothing."""
    collector = ThrottleCollector(Sampler(night, SETTINGS))

    def total(counts: dict[str, int]) -> float:
        view = View(
            seen=seen(0.0),
            holders={
                name: holder(name, 0.1, 5000.0, dropped=count)
                for name, count in counts.items()
            },
        )
        night.known = {"main": view, "reports": view}
        families = {one.name: one for one in collector.collect()}
        [sample] = families["throttle_dropped_operations"].samples
        value: float = sample.value
        return value

    assert [total({"a": 5, "b": 1}), total({"b": 3}), total({"a": 6, "c": 2})] == [
        6.0,
        8.0,
        11.0,
    ]


def test_lives_that_are_over_are_not_kept_for_ever(night: Night) -> None:
    """A deploy an hour for a year is no leak."""
    collector = ThrottleCollector(Sampler(night, SETTINGS))
    families = {}
    for life in range(200):
        night.known = {
            "main": View(
                seen=seen(0.0),
                holders={f"id-{life}": holder("w", 1.0, 5000.0, admitted=3)},
            )
        }
        families = {one.name: one for one in collector.collect()}
    assert len(collector._sums._admissions["main", "admitted"]._last) <= MOST_GONE + 1
    [sample] = [
        one
        for one in families["throttle_admitted_tasks"].samples
        if one.labels["database"] == "main"
    ]
    assert sample.value == 600.0


def test_tenants_are_bounded(night: Night) -> None:
    """Ten thousand of them are not ten thousand series."""
    tenants = {f"t{nth}": (nth, 0) for nth in range(400)}
    night.known = {
        "main": View(
            seen=seen(0.0),
            holders={"id": holder("w", 1.0, 5000.0, tenants=tenants, held=1)},
        )
    }
    registry = CollectorRegistry()
    settings: Settings = replace(SETTINGS)
    registry.register(ThrottleCollector(Sampler(night, settings)))
    assert len([one for one in lines(registry) if "by_tenant" in one]) == 20


DOCS = Path(__file__).parents[3] / "docs"
NAMED = re.compile(r"\bthrottle_(?!limits|redis_url)\w+")


@pytest.fixture
def existing(registry: CollectorRegistry) -> set[str]:
    """Return the names of all figures."""
    return {line.partition("{")[0].partition(" ")[0] for line in lines(registry)}


def test_what_is_alarmed_on_exists(existing: set[str]) -> None:
    """An alarm on a figure that does not exist never comes."""
    for page in ("alerts.yml", "dashboard.json"):
        named = set(NAMED.findall((DOCS / "monitoring" / page).read_text()))
        assert named
        assert named <= existing


def test_the_documentation_names_every_figure(existing: set[str]) -> None:
    """And none that does not exist."""
    page = (DOCS / "how-to" / "throttle-watch.md").read_text()
    told = page[page.index("| metric | type |") :]
    assert set(NAMED.findall(told)) == existing
