"""The broker restarted, killed, frozen, unreachable, or accepting and never answering.

Retries stay inside a slot's deadline, then it is a counted miss: nobody exits and
nothing piles up. A worker that runs all through works on afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from celery_pecker.testing import eventually
from tests.chaos.cluster import Cluster
from tests.chaos.verdict import Blow, Event

if TYPE_CHECKING:
    from tests.chaos.conftest import OwnServers
    from tests.chaos.verdict import Verdict
    from tests.proxy import Proxy
    from tests.services import PostgresStand

pytestmark = pytest.mark.cluster

AWAY = 10.0
SHORT = 3.0
BACK_WITHIN = 15.0
"""No promise of ours: beyond it a replica is deaf, not slow."""
HEALING = 3.5

Outage = Callable[["Cluster", "OwnServers"], None]


def restarted(cluster: Cluster, servers: OwnServers) -> None:
    """Ended in good order, and started after a while."""
    servers.redis.stop()
    cluster.until(cluster.now + SHORT)
    servers.redis.start()


def killed(_: Cluster, servers: OwnServers) -> None:
    """SIGKILL, and started at once."""
    servers.redis.kill()
    servers.redis.start()


def frozen(cluster: Cluster, servers: OwnServers) -> None:
    """Ten seconds without an answer; in the end it runs what it was sent."""
    servers.redis.freeze()
    cluster.until(cluster.now + AWAY)
    servers.redis.thaw()


def unreachable(cluster: Cluster, _: OwnServers) -> None:
    """Nobody listens, connections are reset."""
    cluster.broker_way.refuse()
    cluster.until(cluster.now + SHORT)
    cluster.broker_way.open()


def mute(cluster: Cluster, _: OwnServers) -> None:
    """Messages arrive and the answers never come: was it sent? The token knows."""
    cluster.broker_way.mute()
    cluster.until(cluster.now + SHORT)
    cluster.broker_way.cut()
    cluster.broker_way.open()


def judged(
    cluster: Cluster, outage: Callable[[], None], title: str, tell: Callable[..., None]
) -> None:
    """The outage left nothing wrong, and no message came late."""
    since = cluster.await_slot(cluster.now)
    began = cluster.now
    outage()
    back = cluster.now
    cluster.await_slot(back, BACK_WITHIN)
    healed = cluster.now - back
    away = Event(blow=Blow.BROKER_AWAY, began=began, ended=back + HEALING)
    verdict = cluster.verdict(since, cluster.next_due(), [away])
    late = Counter(
        arrival.name
        for arrival in cluster.arrivals(began)
        if arrival.at > back - 0.1 and arrival.due_us / 1e6 < back - cluster.period
    )
    most = max(late.values(), default=0)
    tell(
        f"{title}, pace back after {healed:.2f} s, {most} late messages of an entry",
        verdict,
    )
    assert verdict.stands, verdict
    assert all(node.process.exit_code is None for node in cluster.beats)
    # one batch may be on its way from each replica, however long the outage was: the
    # first that finds the broker silent, and one that claimed before it knew
    assert most <= 1, late


@pytest.fixture(scope="module", autouse=True)
def _replicas(cluster: Cluster) -> None:
    conf = cluster.conf()
    # one entry besides, for the worker: the recorder reads another queue
    conf["beat_schedule"]["worked"] = {
        "task": "chaos.tick",
        "schedule": 1.0,
        "options": {"queue": f"{cluster.queue}-worked"},
    }
    nodes = [cluster.replica(conf) for _ in range(2)]
    worker = cluster.worker(f"{cluster.queue}-worked", conf)
    worker.container.process.start()
    cluster.begin(nodes)
    assert worker.ready()


def ran(cluster: Cluster) -> int:
    """Return how many slots the worker has run."""
    return int(cluster.workers[0].logs().count("ran worked"))


@pytest.mark.parametrize(
    "outage",
    [
        restarted,
        frozen,
        mute,
        pytest.param(killed, marks=pytest.mark.soak),  # restarted, without a farewell
        pytest.param(unreachable, marks=pytest.mark.soak),  # as while it restarts
    ],
)
def test_the_pace_is_back_when_redis_is_and_nothing_has_piled_up(
    outage: Outage,
    cluster: Cluster,
    own_servers: OwnServers,
    tell: Callable[[str, Verdict], None],
) -> None:
    """Schedulers and the worker live; slots of the outage are missed, none doubled."""
    judged(
        cluster,
        lambda: outage(cluster, own_servers),
        f"Redis {outage.__name__}",
        tell,
    )
    before = ran(cluster)
    eventually(lambda: ran(cluster) > before + 1, 30, "the worker runs new slots")
    assert cluster.workers[0].container.process.exit_code is None


@pytest.fixture(scope="module")
def rabbit(
    postgres_server: PostgresStand, amqp_server: str, queue: str
) -> Iterator[Cluster]:
    """Two replicas on RabbitMQ, which is the machine's own: only its way is cut."""
    with (
        postgres_server.fresh(migrated=True) as dsn,
        Cluster(dsn=dsn, broker_url=amqp_server, queue=f"{queue}-rabbit") as made,
    ):
        made.replicas(2)
        yield made


def refuse(way: Proxy) -> None:
    """Nobody listens, connections are reset."""
    way.refuse()


def hang(way: Proxy) -> None:
    """Connections are accepted, nothing arrives."""
    way.hang()


@pytest.mark.parametrize("way", [hang, pytest.param(refuse, marks=pytest.mark.soak)])
def test_the_pace_is_back_when_rabbitmq_is_and_nothing_has_piled_up(
    way: Callable[[Proxy], None],
    rabbit: Cluster,
    tell: Callable[[str, Verdict], None],
) -> None:
    """The same promises on RabbitMQ, whose messages are confirmed by itself."""

    def outage() -> None:
        way(rabbit.broker_way)
        rabbit.until(rabbit.now + (AWAY if way is hang else SHORT))
        rabbit.broker_way.open()

    judged(rabbit, outage, f"RabbitMQ: {way.__name__}", tell)
