"""One process plans at a time; a plan stands as a whole, or not at all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from celery_pecker.kernel.errors import DatabaseUnavailable, LeaseLost
from celery_pecker.testing import eventually
from celery_sharding.codec import encode_items
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.base import StageLease
from celery_sharding.ledger.plans import Written
from celery_sharding.model import Planned
from tests.integration.sharding.conftest import Time as StepTime

Submit = Callable[..., str]
Opened = Callable[[], Ledger]
LEASE = 15.0
TABLES = ("layers", "shards", "items", "tickets")


def begun(ledger: Ledger, task_id: str, holder: str = "host:1:a") -> StageLease:
    """Return the turn of a planner that gets one."""
    turn = ledger.plans.begin(task_id, holder, LEASE)
    assert turn is not None
    return turn


def shards(*counts: int, layer: int = 0) -> list[Planned]:
    """Return shards with so many items."""
    return [
        Planned(layer=layer, count=count, body=encode_items([*range(count)]))
        for count in counts
    ]


def asked(ledger: Ledger, question: str) -> list[tuple[object, ...]]:
    """Return what the database says, on the ledger's own connection."""
    with ledger.database._connected().cursor() as cursor:
        return cursor.execute(question.encode()).fetchall()


def counted(ledger: Ledger) -> dict[str, object]:
    """Return how many rows of a plan there are."""
    return {
        table: asked(ledger, f"select count(*) from pecker_{table}")[0][0]  # noqa: S608
        for table in TABLES
    }


NOTHING = dict.fromkeys(TABLES, 0)


# Turns


def test_one_plans_at_a_time(ledger: Ledger, submitted: Submit) -> None:
    """Whoever comes second, or with a copy of the message, gets no turn."""
    task_id = submitted()
    turn = begun(ledger, task_id)
    assert (turn.epoch, turn.attempts, turn.run) == (1, 1, 1)
    assert ledger.plans.begin(task_id, "host:2:b", LEASE) is None
    assert ledger.plans.begin("unknown", "host:2:b", LEASE) is None


def test_a_planner_that_is_heard_no_more_is_followed_by_another(
    ledger: Ledger, submitted: Submit, time: StepTime
) -> None:
    """With a higher epoch, and the count of attempts goes on."""
    task_id = submitted()
    first = begun(ledger, task_id)
    time.step(LEASE - 0.1)
    assert ledger.plans.begin(task_id, "host:2:b", LEASE) is None
    time.step(0.1)
    second = begun(ledger, task_id, "host:2:b")
    assert (second.epoch, second.attempts) == (first.epoch + 1, 2)
    assert not ledger.plans.renew(first, LEASE)
    assert ledger.plans.renew(second, LEASE)


def test_a_planner_that_is_heard_goes_on(
    ledger: Ledger, submitted: Submit, time: StepTime
) -> None:
    """Each renewal counts from when it was written."""
    task_id = submitted()
    turn = begun(ledger, task_id)
    for _ in range(3):
        time.step(LEASE - 1)
        assert ledger.plans.renew(turn, LEASE)
    assert ledger.plans.begin(task_id, "host:2:b", LEASE) is None


# Writing


def test_a_plan_stands_as_it_was_given(ledger: Ledger, submitted: Submit) -> None:
    """Shards are numbered over all layers; the job goes on to sharding."""
    turn = begun(ledger, submitted(concurrency=2))
    reference = {"source": "keys", "part": {"first": 1, "é": [None, 1.5]}}
    plan = [
        *shards(3, 2),
        Planned(layer=1, count=7, reference=reference, owner="worker-1"),
    ]
    assert ledger.plans.write(turn, plan) == Written(total=12, layers=2, shards=3)
    assert asked(
        ledger,
        "select shard, layer, status, origin, lo, hi, owner, reference"
        " from pecker_shards order by shard",
    ) == [
        (0, 0, 100, 0, 0, 3, None, None),
        (1, 0, 100, 1, 0, 2, None, None),
        (2, 1, 100, 2, 0, 7, "worker-1", reference),
    ]
    assert asked(
        ledger,
        "select layer, total, shards, open, started_at is not null from pecker_layers"
        " order by layer",
    ) == [(0, 5, 2, 2, True), (1, 7, 1, 1, False)]
    assert asked(ledger, "select shard, body from pecker_items order by shard") == [
        (0, b"j[0, 1, 2]"),
        (1, b"j[0, 1]"),
    ]
    assert asked(ledger, "select ticket, seq, state from pecker_tickets") == [
        (1, 0, "idle"),
        (2, 0, "idle"),
    ]
    assert asked(
        ledger, "select stage, layer, layers, total, attempts, holder from pecker_jobs"
    ) == [("sharding", 0, 2, 12, 0, None)]


def test_there_are_no_more_tickets_than_shards(
    ledger: Ledger, submitted: Submit
) -> None:
    """What nobody can use is not made."""
    ledger.plans.write(begun(ledger, submitted(concurrency=64)), shards(1, 1, 1))
    assert counted(ledger)["tickets"] == 3


def test_nothing_to_run_is_a_plan_too(ledger: Ledger, submitted: Submit) -> None:
    """Post is next, with nothing."""
    turn = begun(ledger, submitted())
    assert ledger.plans.write(turn, []) == Written(total=0, layers=0, shards=0)
    assert asked(ledger, "select stage, total from pecker_jobs") == [("posting", 0)]
    assert counted(ledger) == NOTHING


def test_the_job_begins_with_the_first_layer_that_has_shards(
    ledger: Ledger, submitted: Submit
) -> None:
    """A layer without items is there, and is passed over."""
    turn = begun(ledger, submitted())
    ledger.plans.write(turn, [*shards(1, layer=1), *shards(1, layer=3)])
    assert asked(ledger, "select layer, layers from pecker_jobs") == [(1, 4)]
    assert asked(ledger, "select open from pecker_layers order by layer") == [
        (0,),
        (1,),
        (0,),
        (1,),
    ]


def test_a_plan_is_written_once(ledger: Ledger, submitted: Submit) -> None:
    """A planner that got no answer, and writes again, changes nothing."""
    turn = begun(ledger, submitted())
    ledger.plans.write(turn, shards(2))
    with pytest.raises(LeaseLost):
        ledger.plans.write(turn, shards(2))
    assert counted(ledger) == {"layers": 1, "shards": 1, "items": 1, "tickets": 1}


def test_a_planner_that_was_followed_writes_nothing(
    ledger: Ledger, submitted: Submit, time: StepTime
) -> None:
    """It was frozen over its plan; the one of its successor counts."""
    task_id = submitted()
    first = begun(ledger, task_id)
    time.step(LEASE)
    second = begun(ledger, task_id, "host:2:b")
    with pytest.raises(LeaseLost, match="nothing was written"):
        ledger.plans.write(first, shards(5, 5))
    assert counted(ledger) == NOTHING
    ledger.plans.write(second, shards(1))
    assert counted(ledger)["shards"] == 1


def test_a_planner_that_is_followed_while_it_writes_writes_nothing(
    ledger: Ledger, submitted: Submit, open_ledger: Opened, time: StepTime
) -> None:
    """It was silent before the last statement, and that one asks who plans."""
    task_id = submitted()
    first = begun(ledger, task_id)
    other = open_ledger()

    def slow() -> Iterator[Planned]:
        yield from shards(5, 5)
        time.step(LEASE)
        begun(other, task_id, "host:2:b")

    with pytest.raises(LeaseLost, match="nothing was written"):
        ledger.plans.write(first, slow())
    assert counted(ledger) == NOTHING


def test_a_job_that_was_cancelled_meanwhile_stays_so(
    ledger: Ledger, submitted: Submit, open_ledger: Opened
) -> None:
    """Whatever the plan is: its stage is another."""
    turn = begun(ledger, submitted())
    other = open_ledger()

    def slow() -> Iterator[Planned]:
        yield from shards(1)
        asked(
            other,
            "update pecker_jobs set stage = 'delivering', outcome = 'cancelled'"
            " returning job",
        )

    with pytest.raises(LeaseLost):
        ledger.plans.write(turn, slow())
    assert counted(ledger) == NOTHING


def test_a_plan_that_breaks_off_leaves_nothing(
    ledger: Ledger, submitted: Submit
) -> None:
    """The source failed after thousands of shards: none of them stands."""
    turn = begun(ledger, submitted())

    def broken() -> Iterator[Planned]:
        yield from shards(*[1] * 2_500)
        raise KeyError

    with pytest.raises(KeyError):
        ledger.plans.write(turn, broken())
    assert counted(ledger) == NOTHING
    assert asked(ledger, "select stage from pecker_jobs") == [("planning",)]


def test_a_planner_that_freezes_while_it_writes_keeps_nobody_waiting(
    ledger: Ledger, submitted: Submit, open_ledger: Opened, time: StepTime
) -> None:
    """Its rows would keep the next planner's out for as long as it is frozen.

    The server ends its transaction once it was silent for the lease.
    """
    task_id = submitted()
    frozen = ledger.plans.begin(task_id, "host:1:a", 1.0)
    assert frozen is not None
    other = open_ledger()

    def stuck() -> Iterator[Planned]:
        yield from shards(*[1] * 1_500)
        # Meanwhile another is at it, and waits for our rows until they are gone.
        time.step(1.0)
        second = begun(other, task_id, "host:2:b")
        eventually(lambda: other.plans.write(second, shards(4)), ignoring=AWAY)
        yield from shards(*[1] * 1_500)

    with pytest.raises((LeaseLost, DatabaseUnavailable)):
        ledger.plans.write(frozen, stuck())
    assert counted(other) == {"layers": 1, "shards": 1, "items": 1, "tickets": 1}


AWAY = (DatabaseUnavailable,)


def test_a_large_plan_takes_little_memory(ledger: Ledger, submitted: Submit) -> None:
    """Of 50 MB of items only one statement's are in memory at a time."""
    turn = begun(ledger, submitted())
    body = bytes(25_000)
    plan = (Planned(layer=0, count=500, body=body + b"%d" % at) for at in range(2_000))
    tracemalloc.start()
    try:
        written = ledger.plans.write(turn, plan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written == Written(total=1_000_000, layers=1, shards=2_000)
    assert peak < 16_000_000
