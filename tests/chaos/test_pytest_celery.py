"""pytest-celery's own API drives schedulers, workers and servers that are processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_celery import (
    CeleryBackendCluster,
    CeleryBrokerCluster,
    CeleryTestBackend,
    CeleryTestBroker,
    CeleryTestCluster,
    CeleryWorkerCluster,
)

from celery_pecker.testing import eventually
from tests.nodes import (
    PeckerTestSetup,
    ServerContainer,
    start,
)

if TYPE_CHECKING:
    from celery import Celery

    from tests.chaos.cluster import Cluster
    from tests.chaos.conftest import OwnServers

pytestmark = pytest.mark.cluster

# pytest-celery's defaults are parametrised over sets, which pytest-xdist refuses: the
# clusters are given here, its remaining fixtures are used as they are.


@pytest.fixture
def celery_setup_cls() -> type[PeckerTestSetup]:
    """A setup that has schedulers too."""
    return PeckerTestSetup


@pytest.fixture
def celery_broker_cluster(own_servers: OwnServers) -> CeleryBrokerCluster:
    """The module's Redis."""
    redis = own_servers.redis
    return CeleryBrokerCluster(CeleryTestBroker(ServerContainer(redis, redis.url)))


@pytest.fixture
def celery_backend_cluster(own_servers: OwnServers) -> CeleryBackendCluster:
    """The same Redis keeps results."""
    redis = own_servers.redis
    return CeleryBackendCluster(CeleryTestBackend(ServerContainer(redis, redis.url)))


@pytest.fixture
def celery_worker_cluster(cluster: Cluster) -> CeleryWorkerCluster:
    """Two workers on the queue that the schedulers send to."""
    conf = cluster.conf(
        task_default_queue=f"{cluster.queue}-worked",
        imports=["pytest_celery.vendors.worker.tasks"],
    )
    nodes = [cluster.worker(f"{cluster.queue}-worked", conf) for _ in range(2)]
    start(nodes)
    return CeleryWorkerCluster(*nodes)


@pytest.fixture
def celery_setup_app(celery_setup_config: dict[str, object]) -> Celery:
    """The app of the test itself, on the same broker."""
    app: Celery = PeckerTestSetup.create_setup_app(celery_setup_config, "chaos")
    return app


def _ran(setup: PeckerTestSetup) -> int:
    return sum(worker.logs().count("ran e") for worker in setup.worker_cluster)


def test_nodes_are_killed_restarted_and_read_by_pytest_celery_s_api(
    celery_setup: PeckerTestSetup, cluster: Cluster
) -> None:
    """kill(), restart(), assert_log_exists() on a worker, the broker and schedulers."""
    conf = cluster.conf(task_default_queue=f"{cluster.queue}-worked")
    nodes = [cluster.replica(conf) for _ in range(2)]
    start(nodes)
    celery_setup.beats = CeleryTestCluster(*nodes)
    assert celery_setup.beats.ready()
    assert celery_setup.ready(docker=True, control=True)
    ping = celery_setup.app.control.ping
    eventually(lambda: len(ping(timeout=1)) == 2, 30.0, "both workers answer a ping")

    celery_setup.worker.assert_log_exists("ran e0000", timeout=15)
    celery_setup.worker.kill()
    assert celery_setup.worker.container.status == "exited"
    celery_setup.worker.restart()
    celery_setup.worker.container.await_words("ready.", "ran e")

    first, second = celery_setup.beats
    first.kill()
    seen = _ran(celery_setup)
    eventually(
        lambda: _ran(celery_setup) > seen + 20, 30.0, "the second scheduler goes on"
    )
    first.restart()
    first.await_woken()

    celery_setup.broker.kill("SIGSTOP")
    celery_setup.broker.kill("SIGCONT")
    celery_setup.broker.restart()
    second.assert_log_exists("pecker: woke")
    seen = _ran(celery_setup)
    eventually(
        lambda: _ran(celery_setup) > seen + 10,
        30,
        "slots run after the restart of the broker",
    )
