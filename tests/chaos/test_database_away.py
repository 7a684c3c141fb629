"""PostgreSQL restarted, killed, frozen, unreachable, or accepting and never answering.

Nobody exits, nothing doubles, and the pace is back when the database is: what falls due
while it is away is gone, and only that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from celery_pecker.kernel.migrations import migrate
from tests.chaos.cluster import Cluster
from tests.chaos.verdict import Blow, Event
from tests.nodes import start

if TYPE_CHECKING:
    from tests.chaos.conftest import OwnServers
    from tests.chaos.verdict import Verdict

pytestmark = pytest.mark.cluster

AWAY = 3.0
BACK_WITHIN = 15.0
"""No promise of ours: beyond it a replica is deaf, not slow."""
# A replica notices after `pecker_database_timeout`, and backs off for up to a second.
HEALING = 3.5

Outage = Callable[["Cluster", "OwnServers"], None]


def restarted(cluster: Cluster, servers: OwnServers) -> None:
    """Ended in good order, and started after a while."""
    servers.postgres.stop()
    cluster.until(cluster.now + AWAY)
    servers.postgres.start()


def restarted_at_once(_: Cluster, servers: OwnServers) -> None:
    """As an administrator does it."""
    servers.postgres.restart()


def killed(_: Cluster, servers: OwnServers) -> None:
    """SIGKILL of the postmaster and all its children; it recovers from its log."""
    servers.postgres.kill()
    servers.postgres.start()


def frozen(cluster: Cluster, servers: OwnServers) -> None:
    """It accepts and never answers; in the end it runs what it was sent."""
    servers.postgres.freeze()
    cluster.until(cluster.now + AWAY)
    servers.postgres.thaw()


def unreachable(cluster: Cluster, _: OwnServers) -> None:
    """Nobody listens, connections are reset."""
    cluster.database_way.refuse()
    cluster.until(cluster.now + AWAY)
    cluster.database_way.open()


def mute(cluster: Cluster, _: OwnServers) -> None:
    """Claims are carried out and their answers never come."""
    cluster.database_way.mute()
    cluster.until(cluster.now + AWAY)
    cluster.database_way.cut()
    cluster.database_way.open()


@pytest.fixture(scope="module", autouse=True)
def _replicas(cluster: Cluster) -> None:
    cluster.replicas(2)


@pytest.mark.parametrize(
    "outage",
    [
        restarted,
        killed,
        frozen,
        mute,
        pytest.param(restarted_at_once, marks=pytest.mark.soak),
        pytest.param(unreachable, marks=pytest.mark.soak),  # as while it restarts
    ],
)
def test_the_pace_is_back_when_postgresql_is(
    outage: Outage,
    cluster: Cluster,
    own_servers: OwnServers,
    tell: Callable[[str, Verdict], None],
) -> None:
    """Both replicas live, slots of the outage alone are missing, none is doubled."""
    since = cluster.await_slot(cluster.now)
    began = cluster.now
    outage(cluster, own_servers)
    back = cluster.now
    away = Event(blow=Blow.DATABASE_AWAY, began=began, ended=back + HEALING)
    cluster.await_slot(back, BACK_WITHIN)
    healed = cluster.now - back
    verdict = cluster.verdict(since, cluster.next_due(), [away])
    tell(f"PostgreSQL {outage.__name__}, pace back after {healed:.2f} s", verdict)
    assert verdict.stands, verdict
    assert all(node.process.exit_code is None for node in cluster.beats)


def test_a_replica_that_starts_while_its_servers_are_away_waits_for_them(
    own_servers: OwnServers, queue: str
) -> None:
    """An outage during a deploy is no bad configuration: nobody exits."""
    with psycopg.connect(own_servers.postgres.dsn, autocommit=True) as connection:
        connection.execute("create schema apart")
    migrate(own_servers.postgres.dsn, schema="apart")
    with Cluster(
        dsn=own_servers.postgres.dsn,
        broker_url=own_servers.redis.url,
        queue=f"{queue}-apart",
        schema="apart",
    ) as late:
        late.database_way.refuse()
        late.broker_way.refuse()
        node = late.replica()
        start([node])
        node.container.await_words("step failed")
        late.database_way.open()
        late.until(late.now + 1.5)
        assert node.process.exit_code is None
        late.broker_way.open()
        node.await_woken()
        late.await_slot(late.now)


def test_each_replica_still_claims_over_one_connection(cluster: Cluster) -> None:
    """After all this, reconnecting has leaked none."""

    def connected(role: str) -> int:
        with psycopg.connect(cluster.dsn) as connection:
            row = connection.execute(
                "select count(*) from pg_stat_activity where application_name = %s",
                [f"celery_pecker:{role}"],
            ).fetchone()
        return row[0] if row else 0

    cluster.await_slot(cluster.now)
    assert connected("scheduler") == len(cluster.beats)
    assert connected("history") <= len(cluster.beats)
