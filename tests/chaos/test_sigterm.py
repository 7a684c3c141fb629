"""SIGTERM ends a scheduler within a second, also while its servers hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from celery_pecker.testing import eventually
from tests.chaos.cluster import Cluster

if TYPE_CHECKING:
    from tests.nodes import BeatNode

pytestmark = pytest.mark.cluster

BOUND = 10.0
"""A second is promised, and told in the report; this leaves room for a busy machine."""
ANSWERS: dict[str, Any] = {
    "pecker_database_timeout": 60.0,
    "pecker_broker_timeout": 60.0,
}
"""Far above the bound: who waits for an answer is seen."""


@pytest.fixture(params=["redis_url", "amqp_url"])
def alone(
    dsn: str, queue_name: str, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A cluster without replicas yet, on Redis and on RabbitMQ."""
    broker_url = request.getfixturevalue(request.param)
    with Cluster(dsn=dsn, broker_url=broker_url, queue=queue_name) as made:
        yield made


def ended(node: BeatNode, cluster: Cluster) -> float:
    """Return how long the scheduler took to end after SIGTERM."""
    began = cluster.now
    node.process.kill("SIGTERM")
    assert node.process.wait(30) == 0
    return cluster.now - began


def test_sigterm_ends_beat_whatever_hangs(
    alone: Cluster, tell: Callable[[str, str], None]
) -> None:
    """All well; PostgreSQL or the broker silent in a request; silent at connect."""
    nodes = [alone.replica(alone.conf(**ANSWERS)) for _ in range(5)]
    calm, database, database_new, broker, broker_new = nodes
    alone.begin(nodes)
    alone.await_slot(alone.now)
    took = {"all well": ended(calm, alone)}

    alone.database_way.hang()
    alone.until(alone.next_due() + 0.2)
    took["PostgreSQL silent in a claim"] = ended(database, alone)
    alone.database_way.cut()  # all are to connect anew, and nothing answers
    database_new.container.await_words("step failed")
    took["PostgreSQL silent at connect"] = ended(database_new, alone)
    alone.database_way.open()

    for node in (broker, broker_new):
        eventually(lambda: node.process.life_log().rstrip().endswith("ms"), 30.0)  # noqa: B023
    alone.await_slot(alone.now)
    alone.broker_way.hang()
    alone.until(alone.next_due() + 0.2)
    took["broker silent in a publish"] = ended(broker, alone)
    alone.broker_way.cut()
    eventually(lambda: "broker" in broker_new.process.life_log(), 30.0)
    took["broker silent at connect"] = ended(broker_new, alone)
    tell(
        "SIGTERM to exit",
        ", ".join(f"{case} {seconds:.2f} s" for case, seconds in took.items()),
    )
    assert all(seconds < BOUND for seconds in took.values()), took


def test_sigterm_loses_no_slot_that_was_claimed(
    alone: Cluster, tell: Callable[[str, str], None]
) -> None:
    """The batch in flight still goes out: a deploy costs nothing."""
    alone.replicas(2)
    alone.await_slot(alone.now)
    # each answer is late, so that a stop right after the claim falls into the publish
    alone.broker_way.open(delay=0.1)
    took = []
    for _ in range(2):
        alone.await_slot(alone.next_due())
        alone.until(alone.next_due() - 0.1)
        seen = len(alone.audit.claims())
        eventually(lambda: len(alone.audit.claims()) > seen, 30.0, interval=0.002)  # noqa: B023
        took.append(ended(alone.winner(), alone))
    claims = {(claim.name, claim.due_us) for claim in alone.audit.claims()}
    came = {(a.name, a.due_us) for a in alone.arrivals()}
    tell(
        "SIGTERM just after a claim",
        f"ended in {', '.join(f'{seconds:.2f} s' for seconds in took)};"
        f" {len(claims)} slots claimed, {len(claims - came)} not published",
    )
    assert claims
    eventually(
        lambda: claims <= {(a.name, a.due_us) for a in alone.arrivals()},
        30.0,
        "every claimed slot was published",
    )
