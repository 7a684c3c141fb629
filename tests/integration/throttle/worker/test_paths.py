"""Each path by which a task comes to the pool leads through the gate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from celery_pecker.kernel.clock import now
from tests.integration.throttle.worker.stand import Stand
from tests.services import PostgresStand

pytestmark = pytest.mark.cluster

REVOKED: Any = {"n": ["1"]}


def most_in_a_second(times: list[float]) -> int:
    """Return the greatest number of these within any second."""
    return max(sum(at <= other < at + 1.0 for other in times) for at in times)


def test_the_rate_is_kept_by_what_statements_cost(
    stands: Callable[..., Stand], postgres_server: PostgresStand
) -> None:
    """Real statements of several workers: no second sees much more than the limit."""
    with postgres_server.fresh(migrated=False) as dsn:
        stand = stands(dsn=dsn)
        limit = 100
        for _ in range(2):
            stand.start(throttle_limits={"main": limit, "other": limit}, prior=20)
        names = [f"s{number}" for number in range(40)]
        stand.send("stated", *names, args=(10,))
        stand.until(stand.ran_all(*names), "all ran", 60)
        assert set(stand.ran.values()) == {1}
        # 10 statements each. Runs end after their statements, so one more may be seen
        assert most_in_a_second([at for at, _ in stand.lines]) * 10 <= limit * 1.3
        own = stand.inspect()["databases"]["main"]
        assert own["admitted"] > 0


def test_eta_and_countdown(either: Stand) -> None:
    """What comes by the timer is held too, and leaves Celery's prefetch as it was."""
    either.start()
    either.until_shut()
    names = [f"e{number}" for number in range(12)]
    either.send("gated", *names, eta=now() + timedelta(seconds=1))
    either.until_held(12)
    assert not either.ran
    either.reopen()
    either.until(either.ran_all(*names), "they ran")
    either.until_held(0)
    told = either.inspect("stats")
    assert told["throttle"]["prefetch_more"] == 0
    assert told["prefetch_count"] == 4
    assert set(either.ran.values()) == {1}


def test_an_eta_limit_leaves_no_drift(stand: Stand) -> None:
    """`worker_eta_task_limit` cuts Celery's rises, not ours, and falls are as large."""
    stand.start(worker_eta_task_limit=5)
    stand.until_shut()
    names = [f"g{number}" for number in range(20)]
    stand.send("gated", *names)
    stand.until_held(20)
    stand.reopen()
    stand.until(stand.ran_all(*names), "they ran")
    stand.until_held(0)
    told = stand.inspect("stats")
    assert told["prefetch_count"] == 4
    assert told["throttle"]["prefetch_more"] == 0


def test_a_rate_limit_still_holds_when_its_database_opens(stand: Stand) -> None:
    """Its tokens were spent while the tasks were held; they do not start at once."""
    stand.start(prior=1)
    stand.until_shut()
    names = [f"l{number}" for number in range(25)]
    stand.send("limited", *names)
    stand.until_held(25)
    stand.send("free", "f")
    stand.until(stand.ran_all("f"), "others pass")
    stand.reopen()
    stand.until(stand.ran_all(*names), "they ran")
    times = [at for at, name in stand.lines if name in names]
    assert most_in_a_second(times) <= 12
    assert stand.inspect()["prefetch_more"] == 0


def test_a_rate_limit_can_be_changed_while_tasks_wait_for_it(stand: Stand) -> None:
    """`celery control rate_limit` works for those that were held."""
    stand.start(prior=1)
    stand.until_shut()
    names = [f"l{number}" for number in range(5)]
    stand.send("limited", *names)
    stand.until_held(5)
    stand.sender.control.rate_limit("limited", "1/h")
    stand.reopen()
    stand.send("gated", "open")
    stand.until(stand.ran_all("open"), "the database is open")
    stand.until_held(4)
    stand.sender.control.rate_limit("limited", "100/s")
    stand.until(stand.ran_all(*names), "they ran")


def test_the_dead_leave_and_never_start(stand: Stand) -> None:
    """Revoked by id, revoked by stamp, expired: each leaves while its lane is shut."""
    stand.start()
    stand.until_shut()
    stand.send("gated", "stays")
    stand.send("gated", "revoked")
    stand.send("gated", "expires", expires=3.0)
    stamps: Any = {"stamps": {"n": "1"}, "stamped_headers": ["n"]}
    stand.send("gated", "stamped", headers=stamps)
    stand.until_held(4)
    stand.sender.control.revoke("revoked")
    stand.until_held(3)
    stand.sender.control.revoke_by_stamped_headers(REVOKED)
    stand.until_held(2)
    stand.until_held(1)
    stand.reopen()
    stand.until(stand.ran_all("stays"), "the living one ran")
    stand.send("free", "last")
    stand.until(stand.ran_all("last"), "all is through")
    assert set(stand.ran) == {"stays", "last"}
    assert stand.inspect()["prefetch_more"] == 0


def test_the_autoscaler_does_not_count_what_is_held(stand: Stand) -> None:
    """Twenty held tasks grow no pool."""
    stand.start("--autoscale=6,1")
    stand.until_shut()
    stand.send("gated", *(f"g{number}" for number in range(20)))
    stand.until_held(20)
    scaled = stand.inspect("stats")["autoscaler"]
    assert scaled["qty"] == 0
    assert scaled["current"] <= 2


def test_without_prefetch(stand: Stand) -> None:
    """`worker_disable_prefetch`: held tasks are none that the worker has reserved."""
    stand.start(worker_disable_prefetch=True)
    stand.until_shut()
    names = [f"g{number}" for number in range(10)]
    stand.send("gated", *names)
    stand.until_held(10)
    stand.send("free", "f1", "f2", "f3")
    stand.until(stand.ran_all("f1", "f2", "f3"), "others pass")
    stand.reopen()
    stand.until(stand.ran_all(*names), "they ran")


def test_priorities_and_age(stand: Stand) -> None:
    """The more urgent first; within a priority the older."""
    stand.start("-c", "1", pool="solo")
    stand.until_shut()
    for name, priority in (("b1", 6), ("a1", 3), ("b2", 6), ("a2", 3)):
        stand.send("gated", name, priority=priority)
    stand.until_held(4)
    stand.reopen()
    stand.until(stand.ran_all("a1", "a2", "b1", "b2"), "they ran")
    assert [name for _, name in stand.lines] == ["a1", "a2", "b1", "b2"]


def test_replaced_children_go_on_counting(stand: Stand) -> None:
    """A child that ends after each task takes its predecessor's place."""
    stand.start("--max-tasks-per-child=1")
    names = [f"g{number}" for number in range(6)]
    stand.send("gated", *names, args=(7,))
    stand.until(stand.ran_all(*names), "they ran")
    asked = stand.inspect
    stand.until(
        lambda: asked()["databases"]["main"]["expected"]["operations"] == 0,
        "all is seen",
    )
    assert asked()["exchange"]["dropped"] == 0
