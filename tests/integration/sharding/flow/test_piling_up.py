"""Messages do not pile up where nobody takes them, and are there once somebody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from celery import Celery

from celery_sharding import flow, sweeper
from celery_sharding.ledger import Ledger
from celery_sharding.messages import NOTIFY, WORK
from celery_sharding.model import Placement
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.flow.conftest import REFUSED, Lying, application
from tests.integration.sharding.flow.test_sweep import Tell, later
from tests.integration.sharding.shift import run_layer

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")

ROUNDS = 60
APART = 12.0
"""Seconds between two sweeps: more than RESEND."""


@pytest.fixture(autouse=True)
def by_the_database(time: Time) -> None:
    """All ledgers go by the database's clock: the sweeper has one of its own."""
    time.at = None


def kinds(lying: Lying, queue: str | None = None) -> list[str]:
    """Return the tasks of the messages that lie in a queue."""
    return [one.task for one in (lying(queue) if queue else lying())]


def test_tickets_that_nobody_takes_are_sent_less_and_less_often(
    app: Celery, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """Their workers are down: within twelve minutes 3 tickets, a few times each."""
    planned(((1, 1, 1),), concurrency=3)
    for _ in range(ROUNDS):
        sweeper.sweep(app)
        later(tell, APART)
    sent = kinds(lying)
    assert 3 * 4 <= len(sent) <= 3 * 8
    assert {*sent} == {WORK}


def test_so_are_those_of_shards_that_belong_to_a_worker(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """It is heard of, and takes none."""
    ready = planned(((1, 1, 1),), concurrency=3, placement=Placement.EVEN)
    ledger.placements.deal(ready.job, [(shard, "a") for shard in range(3)])
    for _ in range(ROUNDS):
        ledger.upkeep.record_worker(
            "a", 3, "a.dq", queues=[app.conf.task_default_queue]
        )
        sweeper.sweep(app)
        later(tell, APART)
    assert 3 * 4 <= len(kinds(lying, "a.dq")) <= 3 * 8


def test_a_ticket_that_was_taken_has_patience_for_it_anew(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """How long its last message waited says nothing of the next."""
    ready = planned(((1, 1),), concurrency=1)
    for _ in range(ROUNDS):
        sweeper.sweep(app)
        later(tell, APART)
    job, ticket, seq = lying()[-1].args
    lying()
    turn = ledger.tickets.take(
        job, ticket, seq, holder="w:1:a", hostname="w", lease=15.0
    )
    assert turn is not None
    assert ledger.tickets.release(turn.hold)
    later(tell, APART)
    sweeper.sweep(app)
    assert [one.args for one in lying()] == [[ready.job, 1, turn.hold.seq]]


def test_notify_is_called_for_once_and_not_each_second(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, tell: Tell
) -> None:
    """Whoever gets the message tells all thresholds that are due by then."""
    ready = planned(((1,), (1,)), notify_every=0.1)
    run_layer(ledger, ready.job)
    for _ in range(ROUNDS):
        sweeper.sweep(app)
        tell("update pecker_jobs set reported_at = reported_at - interval '2 s'")
    assert kinds(lying).count(NOTIFY) == 1
    # It was lost.
    later(tell, 600.0)
    sweeper.sweep(app)
    assert kinds(lying).count(NOTIFY) == 1
    # It came, and another threshold is crossed.
    for step in range(1, 6):
        assert ledger.outcomes.notified(ready.job, step)
    later(tell, 600.0)
    run_layer(ledger, ready.job)
    flow.advance_job(app, ledger, ready.job)
    assert NOTIFY in kinds(lying)


@pytest.fixture
def sweep_without_a_broker(
    dsn: str, redis_url: str, queue_name: str, tell: Tell
) -> Iterator[Callable[[], None]]:
    """Give a function that sweeps, a second after the last time."""
    away = application(dsn, REFUSED, redis_url, queue_name)

    def sweep() -> None:
        sweeper.sweep(away)
        later(tell, 1.0)

    yield sweep
    away.close()


def test_what_the_broker_did_not_take_is_sent_with_the_next_sweep(
    app: Celery,
    sweep_without_a_broker: Callable[[], None],
    submitted: Callable[..., str],
    planned: Planner,
    lying: Lying,
) -> None:
    """However long it was away, and however often it was tried."""
    ready, task_id = planned(((1,),)), submitted()
    for _ in range(5):
        sweep_without_a_broker()
    assert lying() == []
    sweeper.sweep(app)
    found = lying()
    assert [one.id for one in found if one.task != WORK] == [task_id]
    assert [one.args for one in found if one.task == WORK] == [[ready.job, 1, 0]]
