"""When a ticket is laid down, passed on, or given up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from celery import Celery

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding import pace
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.shards import Shards
from celery_sharding.model import Code, Options
from celery_sharding.runner import Shard, work
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_worker import register_process
from celery_sharding.runner.slice import ItemBatch
from tests.integration.sharding.runner.conftest import TASK
from tests.integration.sharding.runner.looks import results, rows, shards

Register = Callable[..., Any]
Planner = Callable[..., Any]


def double(shard: Shard) -> None:
    """Give each item twice as large."""
    for item in shard:
        shard.ok(2 * item)


def ticket(ledger: Ledger) -> tuple[Any, ...]:
    """Return the state of the first ticket, and whether it sleeps."""
    return rows(
        ledger,
        "select state, wake_at > clock_timestamp() from pecker_tickets"
        " where ticket = 1",
    )[0]


def test_a_task_that_is_not_known_here_waits_for_a_worker_that_knows_it(
    app: Celery, ledger: Ledger, planned: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once a minute, with the code by which others know it."""
    ready = planned(task="proj.nobody")
    with caplog.at_level(logging.ERROR):
        assert work(app, ready.job, 1, 0) == "unknown here"
        assert work(app, ready.job, 2, 0) == "unknown here"
    told = [one for one in caplog.messages if "k_sc_ec_300001" in one]
    assert len(told) == 1
    assert ticket(ledger) == ("idle", True)
    assert {one[0] for one in shards(ledger, ready.job)} == {Code.WAITING}


def test_items_of_a_task_that_is_not_known_here_wait_for_a_worker_that_knows_it(
    app: Celery,
    ledger: Ledger,
    planned: Planner,
    register: Register,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They would all fail here, though nothing is wrong with them."""
    register(double, calls=lambda _: ["proj.elsewhere"])
    ready = planned(task=TASK)
    assert work(app, ready.job, 1, 0) == "unknown here"
    assert "k_sc_ec_300001" in caplog.text
    assert "proj.elsewhere" in caplog.text
    assert {one[0] for one in shards(ledger, ready.job)} == {Code.WAITING}


class Answer(NamedTuple):
    """What a gate answers."""

    admitted: bool
    remaining: float
    retry_after: float


class Shut:
    """A gate that lets nobody pass."""

    def admit(self, database: str, cost: float) -> Answer:
        """Say no."""
        assert (database, cost) == ("orders", 1.0)
        return Answer(admitted=False, remaining=0.0, retry_after=30.0)


@pytest.mark.parametrize("gate", [Shut(), Shut])
def test_a_closed_gate_lays_the_ticket_down(
    app: Celery, ledger: Ledger, register: Register, planned: Planner, gate: Any
) -> None:
    """For as long as it says; no item was begun."""
    register(double, gate=gate, options=Options(database="orders"))
    ready = planned()
    assert work(app, ready.job, 1, 0) == "the gate is closed"
    assert ticket(ledger) == ("idle", True)


def shut(app: Celery) -> Shut:
    """Make a gate for an app, as `throttle.Gate` is made."""
    assert isinstance(app, Celery)
    return Shut()


@pytest.mark.parametrize("option", ["orders", ("orders", "acme")])
def test_the_option_throttle_asks_the_gate_of_the_app(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    option: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task says as any other which database it touches, and needs no lambda."""
    monkeypatch.setattr("celery_sharding.runner.tickets.GATE", f"{__name__}:shut")
    app.conf.throttle_limits = {"orders": 100}
    register(double, throttle=option)
    ready = planned()
    assert work(app, ready.job, 1, 0) == "the gate is closed"
    assert ticket(ledger) == ("idle", True)


def test_a_gate_that_fails_lets_pass(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """It is there to be polite, not to stop jobs."""
    register(double, gate=lambda: 1 / 0, options=Options(database="orders"))
    ready = planned()
    work(app, ready.job, 1, 0)
    assert {one[0] for one in shards(ledger, ready.job)} == {Code.SUCCEEDED}


def test_a_slice_ends_between_shards_and_the_ticket_is_passed_on(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At least one shard is run; the message names the number of the hold."""
    monkeypatch.setattr(pace, "SLICE", 0.05)
    register(double)
    ready = planned(((1,) * 20,))
    later = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "celery_sharding.runner.slice.monotonic",
            lambda: SYSTEM.monotonic() + next(later) / 10,
        )
        assert work(app, ready.job, 1, 0) == "passed on"
    ended = [one for one in shards(ledger, ready.job) if one[0] == Code.SUCCEEDED]
    assert len(ended) == 1
    assert rows(ledger, "select state, seq from pecker_tickets where ticket = 1") == [
        ("sent", 1)
    ]
    with (
        app.connection_for_read() as connection,
        connection.SimpleQueue(app.conf.task_default_queue) as queue,
    ):
        message = queue.get(timeout=30.0)
        assert message.payload[0] == [ready.job, 1, 1]
        message.ack()


def test_a_worker_that_is_to_stop_passes_its_tickets_on(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """Without beginning an item."""
    register(double)
    ready = planned()
    register_process(app, "here", "threads").stop()
    assert work(app, ready.job, 1, 0) == "passed on"
    assert {one[0] for one in shards(ledger, ready.job)} == {Code.WAITING}


def test_shards_that_wait_behind_a_slow_one_are_given_back(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others run them meanwhile."""
    monkeypatch.setattr(ItemBatch, "took", lambda *_, **__: None)
    monkeypatch.setattr(ItemBatch, "__init__", lambda self: setattr(self, "size", 5))
    monkeypatch.setattr(Holding, "due", 0.0)
    monkeypatch.setattr("celery_sharding.runner.slice.STRAGGLES", 0.0)
    free: list[int] = []

    def process(shard: Shard) -> None:
        for _ in shard:
            states = [one[0] for one in shards(ledger, ready.job)]
            free.append(states.count(Code.WAITING))

    register(process)
    ready = planned(((3, 1, 1, 1, 1),))
    work(app, ready.job, 1, 0)
    assert max(free) == 4
    assert {one[0] for one in shards(ledger, ready.job)} == {Code.SUCCEEDED}


def test_a_write_is_tried_again_while_nobody_else_can_have_the_ticket(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it wrote counts once, also where only the answer was lost."""
    original, failures = Shards.write, iter([1, 1])

    def write(self: Shards, *args: Any, **given: Any) -> Any:
        word = original(self, *args, **given)
        if next(failures, None):
            message = "the answer was lost"
            raise DatabaseUnavailable(message)
        return word

    monkeypatch.setattr(Shards, "write", write)
    register(double)
    ready = planned()
    work(app, ready.job, 1, 0)
    assert results(ledger, ready.job) == [2 * item for item in range(20)]
    assert rows(ledger, "select done, failed, open from pecker_layers") == [(20, 0, 0)]


def test_a_holder_whose_lease_is_over_writes_nothing(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own clock, before it asks anybody."""
    asked: list[object] = []
    register(double)
    ready = planned()
    monkeypatch.setattr(Holding, "renewed", lambda *_: None)
    monkeypatch.setattr("celery_sharding.runner.tickets.monotonic", lambda: -1000.0)
    monkeypatch.setattr(Shards, "write", lambda *_, **__: asked.append(1))
    assert work(app, ready.job, 1, 0) == "lost"
    assert asked == []


def test_items_that_cannot_be_had_fail_their_shard(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """With all that it has; the others run."""
    register(double)
    ready = planned()
    rows(ledger, "delete from pecker_items where shard = 0 returning 1")
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [(302, 0, 0, 10), (301, 10, 10, 0)]
    assert TASK in app.tasks
