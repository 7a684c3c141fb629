"""Three replicas: whoever dies or freezes, a survivor keeps the pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.chaos.verdict import Blow, Event
from tests.nodes import BeatNode, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.cluster import Cluster
    from tests.chaos.verdict import Verdict
    from tests.proxy import Proxy

pytestmark = pytest.mark.cluster

SANE = 5.0
"""No bound of ours: a gap beyond it means that nobody took over at all."""


@pytest.fixture(scope="module")
def ways(cluster: Cluster) -> dict[str, Proxy]:
    """Three replicas, ready, each with a way to the broker of its own."""
    own = {}
    for _ in range(3):
        way = cluster.own_broker_way()
        conf = cluster.conf(broker_way=way)
        node = cluster.replica(conf, env={"PECKER_CHAOS_QUIET": "1e9"})
        own[node.name()] = way
    start(cluster.beats, BeatNode.await_woken)
    cluster.await_slot(cluster.now)
    return own


@pytest.fixture(autouse=True)
def whole(cluster: Cluster, ways: dict[str, Proxy]) -> None:
    """All three replicas stand at the start of each test."""
    for node in cluster.beats:
        ways[node.name()].open()
        if node.process.exit_code is not None:
            node.process.start()
    for node in cluster.beats:
        node.await_woken()


def test_each_replica_claims_over_one_connection(cluster: Cluster) -> None:
    """Three schedulers cost three, and one more for each that writes history."""
    with psycopg.connect(cluster.dsn) as connection:
        rows = connection.execute(
            "select application_name, count(*) from pg_stat_activity"
            " where application_name like 'celery_pecker%' group by 1"
        ).fetchall()
    found: dict[str, int] = dict(rows)
    assert found.pop("celery_pecker:scheduler") == 3
    assert found.pop("celery_pecker:history", 0) <= 3
    assert not found


def test_another_replica_takes_over_when_the_winner_is_killed(
    cluster: Cluster, tell: Callable[[str, Verdict], None]
) -> None:
    """SIGKILL of whoever claimed last; no slot twice, none missing without a cause."""
    since = cluster.await_slot(cluster.now)
    events = []
    for _ in range(2):
        winner = cluster.winner()
        pid, at = winner.process.pid, cluster.now
        winner.kill()
        events.append(Event(blow=Blow.KILLED, began=at, ended=at, pid=pid, aimed=True))
        cluster.await_slot(cluster.next_due())
    verdict = cluster.verdict(since, cluster.next_due(), events)
    tell("the winner killed, twice", verdict)
    assert verdict.stands, verdict
    assert max(gap.seconds for gap in verdict.gaps.values()) < SANE


def test_another_replica_takes_over_while_the_winner_is_frozen(
    cluster: Cluster, tell: Callable[[str, Verdict], None]
) -> None:
    """SIGSTOP of whoever claimed last, past its deadline; it comes back in silence."""
    since = cluster.await_slot(cluster.now)
    events = []
    for _ in range(2):
        winner = cluster.winner()
        began = cluster.now
        winner.freeze()
        cluster.until(began + 2.5)
        winner.thaw()
        events.append(
            Event(
                blow=Blow.FROZEN,
                began=began,
                ended=cluster.now,
                pid=winner.process.pid,
                aimed=True,
            )
        )
        cluster.await_slot(cluster.next_due())
    verdict = cluster.verdict(since, cluster.next_due(), events)
    tell("the winner frozen 2.5 s, twice", verdict)
    assert verdict.stands, verdict
    assert max(gap.seconds for gap in verdict.gaps.values()) < SANE


def _claims_and_cannot_publish(cluster: Cluster, ways: dict[str, Proxy]) -> BeatNode:
    """Return a replica that has just claimed a slot and hangs in its publish."""
    for _ in range(10):
        winner = cluster.winner()
        way = ways[winner.name()]
        seen = len(cluster.audit.claims())
        way.hang()
        eventually(lambda: len(cluster.audit.claims()) > seen, 30.0)  # noqa: B023
        if cluster.audit.claims()[-1].pid == winner.process.pid:
            return winner
        way.open()
    msg = "no replica won twice running"
    raise AssertionError(msg)


def test_a_slot_claimed_and_not_published_is_lost_once_and_the_next_one_fires(
    cluster: Cluster, ways: dict[str, Proxy], tell: Callable[[str, Verdict], None]
) -> None:
    """Killed between claim and publish: that wake-up's slots are lost, nothing else."""
    since = cluster.await_slot(cluster.now)
    winner = _claims_and_cannot_publish(cluster, ways)
    pid, at = winner.process.pid, cluster.now
    winner.kill()
    ways[winner.name()].cut()  # what its kernel might still have sent is lost too
    event = Event(blow=Blow.KILLED, began=at, ended=at, pid=pid, aimed=True)
    cluster.await_slot(cluster.next_due())
    verdict = cluster.verdict(since, cluster.next_due(), [event])
    tell("killed between claim and publish", verdict)
    assert verdict.stands, verdict
    assert verdict.lost
    assert {lost.cause for lost in verdict.lost} == {Blow.KILLED}
    assert len({lost.due_us for lost in verdict.lost}) == 1


def test_a_replica_frozen_between_claim_and_publish_publishes_nothing_too_late(
    cluster: Cluster, ways: dict[str, Proxy], tell: Callable[[str, Verdict], None]
) -> None:
    """Woken after its slot's deadline it counts a miss and says so; nothing doubles."""
    since = cluster.await_slot(cluster.now)
    winner = _claims_and_cannot_publish(cluster, ways)
    began = cluster.now
    winner.freeze()
    ways[winner.name()].cut()
    ways[winner.name()].open()
    cluster.until(began + 2.5)
    winner.thaw()
    event = Event(
        blow=Blow.FROZEN,
        began=began,
        ended=cluster.now,
        pid=winner.process.pid,
        aimed=True,
    )
    winner.assert_log_exists("slots missed", timeout=10)
    cluster.await_slot(cluster.next_due())
    verdict = cluster.verdict(since, cluster.next_due(), [event])
    tell("frozen between claim and publish", verdict)
    assert verdict.stands, verdict
    assert {lost.cause for lost in verdict.lost} == {Blow.FROZEN}
    late = [a.at - a.due_us / 1e6 for a in cluster.arrivals(since)]
    assert max(late) < cluster.period * 1.5
