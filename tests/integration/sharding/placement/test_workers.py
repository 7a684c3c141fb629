"""Shards of real workers: the same number for each, and only orphans move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from celery_pecker.testing import eventually
from tests.conftest import STANDS, Servers
from tests.integration.sharding.placement.cluster import Cluster

pytestmark = pytest.mark.cluster
Make = Callable[..., Cluster]
SLOW = 0.3


@pytest.fixture
def cluster(servers: Servers) -> Iterator[Make]:
    """Give a function that makes an app; its arguments are settings."""
    with ExitStack() as stack:

        def made(**settings: object) -> Cluster:
            conf = {
                "broker_url": servers.broker_url,
                "task_ignore_result": True,
                "task_default_queue": servers.queue,
                "worker_prefetch_multiplier": 1,
                "worker_direct": True,
                "pecker_dsn": servers.dsn,
                "pecker_worker": ["scheduler"],
                "sharding_lease": 3.0,
                **settings,
            }
            return Cluster(conf, stack)

        yield made


def test_each_worker_runs_as_many_shards_and_only_its_own(cluster: Make) -> None:
    """Whatever its pace; tickets come to those with open shards, and are few."""
    made = cluster()
    names = [made.worker(one, "-P", "prefork", "-c", "2").name for one in "abc"]
    made.known(3)
    task_id = made.call(45, {names[0]: SLOW})
    eventually(lambda: made.ended(task_id) == "succeeded", 60.0, "it has ended")
    owners = made.owners()
    assert Counter(owners.values()) == dict.fromkeys(names, 3)
    assert made.ran() == {shard: {owner} for shard, owner in owners.items()}
    assert len(made.rows("select from ran")) == 45
    given = made.given()
    # One for each shard, and at most one more than slots that comes too late.
    assert max(given[one] for one in names[1:]) <= 3 + 2 + 1


def test_when_a_worker_is_killed_only_its_shards_move(cluster: Make) -> None:
    """Evenly; and those of the others stay, run or not."""
    made = cluster()
    workers = [made.worker(one, "-P", "prefork", "-c", "2") for one in "abc"]
    names = [one.name for one in workers]
    made.known(3)
    task_id = made.call(180, dict.fromkeys(names, SLOW))
    eventually(lambda: {*names} <= {*made.given()}, 30.0, "each has a ticket")
    eventually(lambda: len(made.ran()) > 3, 30.0, "it runs")
    before = made.owners()
    assert Counter(before.values()) == dict.fromkeys(names, 12)
    workers[0].kill("SIGKILL")
    eventually(lambda: names[0] not in open_owners(made), 60.0, "they have moved")
    after = made.owners()
    moved = Counter(after[one] for one in before if after[one] != before[one])
    assert {one for one in before if after[one] != before[one]} <= {
        one for one, owner in before.items() if owner == names[0]
    }
    assert {*moved} == {*names[1:]}
    assert max(moved.values()) - min(moved.values()) <= 1
    eventually(lambda: made.ended(task_id) == "succeeded", 120.0, "it has ended")
    assert made.owners() == after
    for shard, ran in made.ran().items():
        assert ran <= {before[shard], after[shard]}


def open_owners(made: Cluster) -> set[str]:
    """Return who has open shards."""
    rows = made.rows(
        "select distinct owner from pecker_shards where status in (100, 201, 202)"
    )
    return {owner for (owner,) in rows}


@pytest.mark.parametrize("servers", STANDS[:1], indirect=True)
def test_without_queues_of_their_own_the_job_is_refused(cluster: Make) -> None:
    """The reason names the setting, and who has none."""
    made = cluster(worker_direct=False)
    name = made.worker("a", "-P", "solo").name
    made.known(1)
    task_id = made.call(9, {})
    eventually(lambda: made.ended(task_id) == "failed", 30.0, "it is refused")
    ((error,),) = made.rows("select error from pecker_jobs")
    assert error["type"] == "Misconfigured"
    assert "placement='even' needs worker_direct=True" in error["message"]
    assert f"none of {name} has one" in error["message"]


@pytest.mark.parametrize("servers", STANDS[:1], indirect=True)
def test_workers_of_other_queues_are_dealt_nothing(
    cluster: Make, servers: Servers
) -> None:
    """They would not take the job's own messages either."""
    made = cluster()
    name = made.worker("a", "-P", "solo").name
    made.worker("b", "-P", "solo", "-Q", f"{servers.queue}-other")
    made.known(2)
    task_id = made.call(9, {})
    eventually(lambda: made.ended(task_id) == "succeeded", 30.0, "it has ended")
    assert {*made.owners().values()} == {name}
    assert {*made.given()} == {name}
