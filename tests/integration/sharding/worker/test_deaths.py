"""Workers and their children that die, freeze, or are told to stop, in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.testing import eventually
from celery_sharding.model import Code
from tests.integration.sharding.worker.conftest import Jobs
from tests.integration.sharding.worker.jobs_app import DEAF, POISON

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
Make = Callable[..., Jobs]


def noted(result: Any) -> list[Any]:
    """Return the items whose results stand in the ledger, each as often as it does."""
    return sorted(str(item) for item, _ in result.results())


def test_shards_of_a_killed_child_go_on_at_once(jobs: Make) -> None:
    """From their cursor, however long its lease: the worker saw it die."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "2")
    items = [*range(80)]
    result = made.note.apply_async((items,), {"pace": 0.05})
    eventually(lambda: len(made.seen()) > 30, 30.0, "it is in the middle")
    victim = made.pids()[-1]
    os.kill(victim, signal.SIGKILL)
    assert result.get(timeout=40.0) == {"total": 80, "done": 80, "failed": 0}
    assert noted(result) == sorted(map(str, items))
    seen = made.seen()
    assert {*seen} == {str(item) for item in items}
    assert sum(seen.values()) - len(seen) <= 10  # not from the beginning


def test_stages_of_a_killed_child_begin_anew_at_once(jobs: Make) -> None:
    """PreProcess and Post, however long the lease: the worker saw them die."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "2")
    result = made.app.tasks["jobs.dying"].delay([1, 2, 3])
    assert result.get(timeout=40.0) == 6
    assert made.seen() == {"pre": 2, "post": 2}


def test_an_item_that_kills_its_process_is_found_and_alone_reported(jobs: Make) -> None:
    """All the others end well, and once in the ledger."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "2")
    items = [*range(120)]
    given: list[object] = [*items[:77], POISON, *items[77:]]
    result = made.note.apply_async((given,), {"pace": 0.001})
    assert result.get(timeout=60.0) == {"total": 121, "done": 120, "failed": 1}
    assert noted(result) == sorted(map(str, items))
    (error,) = result.errors()
    assert (error.item, error.code) == (POISON, Code.DIED)
    assert made.seen()[POISON] <= 10


def test_a_child_that_hangs_where_nothing_reaches_it_is_replaced(jobs: Make) -> None:
    """Its item is reported, and the rest goes on in a new process."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "1")
    given = [*range(5), DEAF, *range(5, 10)]
    result = made.note.apply_async((given,))
    assert result.get(timeout=40.0) == {"total": 11, "done": 10, "failed": 1}
    (error,) = result.errors()
    assert (error.item, error.code) == (DEAF, Code.TIMED_OUT)
    assert {*made.seen().values()} == {1}
    assert len({*made.pids()}) == 2


@pytest.mark.parametrize("pool", ["threads", "gevent", "solo"])
def test_a_worker_that_was_killed_and_starts_again_goes_on_at_once(
    jobs: Make, pool: str
) -> None:
    """What its earlier life held is free when it is there again."""
    made = jobs(sharding_lease=600.0)
    worker = made.worker("-P", pool, "-c", "2")
    result = made.note.apply_async(([*range(60)],), {"pace": 0.05})
    eventually(lambda: len(made.seen()) > 10, 30.0, "it is in the middle")
    worker.kill("SIGKILL")
    worker.start()
    assert result.get(timeout=40.0) == {"total": 60, "done": 60, "failed": 0}


def test_a_frozen_worker_that_wakes_writes_nothing(jobs: Make) -> None:
    """Its shards went on elsewhere, and what they wrote stands."""
    made = jobs(sharding_lease=2.0)
    frozen = made.worker("-P", "solo")
    items = [*range(60)]
    result = made.note.apply_async((items,), {"pace": 0.05})
    eventually(lambda: len(made.seen()) > 20, 30.0, "it is in the middle")
    frozen.kill("SIGSTOP")
    other = made.worker("-P", "solo")
    assert result.get(timeout=40.0) == {"total": 60, "done": 60, "failed": 0}
    before = made.rows("select shard, at, body from pecker_results order by 1, 2")
    frozen.kill("SIGCONT")
    eventually(lambda: "is lost" in frozen.life_log(), 30.0, "it found out")
    assert noted(result) == sorted(map(str, items))
    after = made.rows("select shard, at, body from pecker_results order by 1, 2")
    assert after == before
    last = made.pids()[-1]
    assert last == other.pid  # what woke began nothing


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_pause_and_cancel_hold_at_the_next_item(jobs: Make, pool: str) -> None:
    """What is paused goes on where it was, and runs no item twice."""
    made = jobs()
    made.worker("-P", pool, "-c", "2")
    items = [*range(100)]
    result = made.note.apply_async((items,), {"pace": 0.02})
    eventually(lambda: len(made.seen()) > 10, 30.0, "it runs")
    result.pause()
    eventually(lambda: not made.held(), 30.0, "nobody holds a ticket")
    paused = len(made.seen())
    assert paused < len(items)
    result.resume()
    assert result.get(timeout=30.0) == {"total": 100, "done": 100, "failed": 0}
    assert {*made.seen().values()} == {1}
    second = made.note.apply_async(([*range(100, 200)],), {"pace": 0.02})
    eventually(lambda: len(made.seen()) > 110, 30.0, "it runs")
    second.cancel()
    eventually(lambda: not made.held(), 30.0, "nobody holds a ticket")
    assert len(made.seen()) < 200


def test_pre_process_without_end_stops_no_greenlet(jobs: Make) -> None:
    """A generator that waits for nothing; its job is cancelled, and others run."""
    made = jobs()
    worker = made.worker("-P", "gevent", "-c", "4")
    endless: Any = made.app.tasks["jobs.endless"]
    result = endless.delay()
    eventually(lambda: made.seen()["endless"] > 0, 30.0, "it gives items")
    result.cancel()
    other = made.note.delay([1, 2])
    assert other.get(timeout=30.0) == {"total": 2, "done": 2, "failed": 0}
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(30.0) == 0


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_a_worker_that_is_to_stop_begins_no_further_item(jobs: Make, pool: str) -> None:
    """Its shards are given back as they are, and nobody is blamed."""
    made = jobs()
    worker = made.worker("-P", pool, "-c", "2")
    result = made.note.apply_async(([*range(2000)],), {"pace": 0.05})
    eventually(lambda: len(made.seen()) > 10, 30.0, "it runs")
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(30.0) == 0
    told = made.rows(
        "select sum(cursor), max(deaths), count(*) filter (where status = 202)"
        " from pecker_shards"
    )
    assert told == [(len(made.seen()), 0, 0)]
    assert not made.held()
    result.cancel()


def test_a_worker_is_known_while_it_lives(jobs: Make) -> None:
    """By its name, and with as many slots as its pool has."""
    made = jobs()
    worker = made.worker("-P", "threads", "-c", "3")
    known = "select slots from pecker_executors"
    eventually(lambda: made.rows(known) == [(3,)], 30.0, "it is known")
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait(30.0)
    assert made.rows(known) == []


def test_a_time_limit_of_the_app_kills_no_ticket(jobs: Make) -> None:
    """It is meant for tasks: a shard of many items takes longer than any of them."""
    made = jobs(task_time_limit=2, task_soft_time_limit=1)
    made.worker("-P", "prefork", "-c", "1")
    items = [*range(70)]
    result = made.note.apply_async((items,), {"pace": 0.05})
    assert result.get(timeout=60.0) == {"total": 70, "done": 70, "failed": 0}
    assert {*made.seen().values()} == {1}
