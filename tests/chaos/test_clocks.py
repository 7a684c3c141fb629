"""Clocks that are wrong: a host's, and the database's, stepped under real processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from celery_pecker.testing import eventually
from tests.chaos import shifted
from tests.chaos.cluster import Cluster
from tests.database_clock import DatabaseClock
from tests.nodes import BeatNode, start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.verdict import Verdict

pytestmark = pytest.mark.cluster

HOUR = 3600.0
TEN_MINUTES = timedelta(minutes=10)
STALLED = 8.0
"""No bound of ours: beyond it the schedule stands still (Celery's own: 3,610 s)."""


@pytest.fixture
def fresh(dsn: str, redis_url: str, queue_name: str) -> Iterator[Cluster]:
    """A cluster without replicas yet."""
    with Cluster(dsn=dsn, broker_url=redis_url, queue=queue_name) as made:
        yield made


def test_a_host_clock_that_moves_changes_nothing(
    fresh: Cluster, tmp_path: Path, tell: Callable[[str, Verdict], None]
) -> None:
    """One replica an hour ahead, one an hour behind; then both are set, as by NTP."""
    files = [tmp_path / "ahead", tmp_path / "behind"]
    for file, seconds in zip(files, (HOUR, -HOUR), strict=True):
        shifted.write(file, seconds)
        fresh.replica(launcher=["-m", "tests.chaos.shifted", str(file)])
    fresh.begin(fresh.beats)
    since = fresh.await_slot(fresh.now)
    fresh.await_slot(fresh.next_due())
    for file, seconds in zip(files, (-HOUR, HOUR), strict=True):
        shifted.write(file, seconds)
    fresh.await_slot(fresh.next_due(2))
    for node in fresh.beats:
        node.kill()
        fresh.await_slot(fresh.next_due())
        break
    verdict = fresh.verdict(since, fresh.next_due(1))
    tell("host clocks an hour wrong, then the other way", verdict)
    assert not verdict.doubled
    assert not [lost for lost in verdict.lost if not lost.claimed]
    assert max(gap.seconds for gap in verdict.gaps.values()) < STALLED


@pytest.fixture
def stepped(
    dsn: str, redis_url: str, queue_name: str
) -> Iterator[tuple[Cluster, DatabaseClock]]:
    """A cluster whose replicas see a database clock that can be stepped."""
    with (
        DatabaseClock(dsn) as clock,
        Cluster(dsn=dsn, broker_url=redis_url, queue=queue_name) as made,
    ):
        made.dsn = clock.dsn
        nodes = [made.replica() for _ in range(2)]
        start(nodes, BeatNode.await_woken)
        yield made, clock


def _fires(cluster: Cluster, since: float, times: int = 3) -> float:
    """Return when each entry had fired so many times since then."""

    def enough() -> bool:
        came = [a.name for a in cluster.arrivals(since)]
        return all(came.count(name) >= times for name in cluster.names)

    eventually(enough, STALLED + times, "the schedule goes on")
    return cluster.now


def _greatest_gap(cluster: Cluster) -> float:
    times = sorted(a.at for a in cluster.arrivals() if a.name == cluster.names[0])
    return max(b - a for a, b in itertools.pairwise(times))


def _eras(cluster: Cluster) -> list[int]:
    return sorted({arrival.era for arrival in cluster.arrivals()})


def test_the_database_s_clock_steps_ten_minutes_and_the_schedule_goes_on(
    stepped: tuple[Cluster, DatabaseClock], tell: Callable[[str, str], None]
) -> None:
    """Ahead: one slot is run, not six hundred. Back: the era rises and it goes on."""
    cluster, clock = stepped
    _fires(cluster, cluster.now)
    at = cluster.now
    clock.step(TEN_MINUTES)
    ahead = _fires(cluster, at) - at
    eras_ahead = _eras(cluster)
    at = cluster.now
    clock.step(timedelta())
    back = _fires(cluster, at) - at
    eras_back = _eras(cluster)
    tell(
        "database clock stepped 10 minutes",
        f"three slots fired {ahead:.2f} s after the step ahead and {back:.2f} s after"
        f" the step back; greatest gap {_greatest_gap(cluster):.2f} s",
    )
    assert eras_ahead == [0]
    assert eras_back == [0, 1]
    arrivals = cluster.arrivals()
    slots = [(a.name, a.due_us, a.era) for a in arrivals]
    assert len(slots) == len(set(slots))
    assert len({a.task_id for a in arrivals}) == len(arrivals)
    per_entry = len(arrivals) / len(cluster.names)
    assert per_entry < 60, "nothing was caught up"
    assert any("clock stepped" in node.process.life_log() for node in cluster.beats)


def test_a_step_back_within_the_slack_is_waited_out_in_the_same_era(
    stepped: tuple[Cluster, DatabaseClock], tell: Callable[[str, str], None]
) -> None:
    """Two seconds back: nobody claims until the grid has passed the row."""
    cluster, clock = stepped
    _fires(cluster, cluster.now, times=1)
    at = cluster.now
    clock.step(timedelta(seconds=-2))
    _fires(cluster, at, times=2)
    tell(
        "database clock stepped back 2 s",
        f"greatest gap {_greatest_gap(cluster):.2f} s, eras {_eras(cluster)}",
    )
    slots = [(a.name, a.due_us) for a in cluster.arrivals()]
    assert len(slots) == len(set(slots))
    assert _eras(cluster) == [0]
