"""What shares a database: two versions, two apps, long readers, migrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from celery_pecker.kernel.migrations import LATEST, migrate
from celery_pecker.kernel.sql import Migration, migrations
from celery_pecker.testing import eventually
from tests.chaos.cluster import Cluster
from tests.nodes import start

if TYPE_CHECKING:
    from tests.chaos.verdict import Verdict
    from tests.services import PostgresStand, RedisStand

pytestmark = pytest.mark.cluster

ENDS_WITHIN = 20.0


@pytest.fixture
def shared(
    postgres_server: PostgresStand, redis_server: RedisStand, queue_name: str
) -> Iterator[Cluster]:
    """A cluster without replicas yet."""
    with (
        postgres_server.fresh(migrated=True) as dsn,
        Cluster(dsn=dsn, broker_url=redis_server.url, queue=queue_name) as made,
    ):
        yield made


def entry(seconds: float) -> dict[str, Any]:
    """Return an entry of that period."""
    return {"task": "chaos.tick", "schedule": seconds}


def test_two_versions_of_one_schedule_run_side_by_side(
    shared: Cluster, tell: Callable[[str, str], None]
) -> None:
    """During a deploy: one period differs, one entry is gone, one is new."""
    before = {"kept": entry(1.0), "changed": entry(1.0), "gone": entry(1.0)}
    after = {"kept": entry(1.0), "changed": entry(2.0), "new": entry(1.0)}
    shared.begin([shared.replica(shared.conf(beat_schedule=before))])
    shared.begin([shared.replica(shared.conf(beat_schedule=after))])
    since = shared.now
    shared.until(since + 4.2)
    shared.beats[0].kill("SIGTERM")  # the deploy ends: only the new version is left
    alone = shared.now + 1.0
    shared.until(alone + 4.2)
    arrivals = shared.arrivals(since)
    slots = [(a.name, a.due_us) for a in arrivals]
    assert len(slots) == len(set(slots))
    both = Counter(a.name for a in arrivals if a.at < since + 4)
    new = Counter(a.name for a in arrivals if alone <= a.at < alone + 4)
    tell(
        "two versions, four seconds", f"together {dict(both)}, the new one {dict(new)}"
    )
    assert all(3 <= both[name] <= 5 for name in ("kept", "gone", "new")), both
    assert 1 <= both["changed"] <= 5, both
    assert 3 <= new["kept"] <= 5, new
    assert 1 <= new["changed"] <= 3, new
    assert new["gone"] == 0, new
    for name in ("kept", "changed", "gone", "new"):
        own = [a for a in arrivals if a.name == name]
        ordered = sorted(own, key=lambda a: a.epoch)
        assert [a.due_us for a in ordered] == sorted(a.due_us for a in own)


def test_a_second_app_on_one_schema_is_refused_and_both_are_named(
    shared: Cluster,
) -> None:
    """Its entries would be mixed with the first one's: it ends at start."""
    shared.replicas(1)
    second = shared.replica(app="the_other_app")
    start([second])
    assert second.process.wait(ENDS_WITHIN) != 0
    said = second.process.life_log().rstrip().rpartition("\n")[2]
    assert "'the_other_app'" in said
    assert "'chaos'" in said
    assert "pecker_schema" in said
    shared.await_slot(shared.now)


def test_a_second_app_in_a_schema_of_its_own_runs_beside_the_first(
    shared: Cluster,
) -> None:
    """Same entry names, same queue: every slot is there twice, under two ids."""
    migrate(shared.dsn, schema="other")
    shared.begin([shared.replica(shared.conf(beat_schedule={"e": entry(1.0)}))])
    conf = shared.conf(pecker_schema="other", beat_schedule={"e": entry(1.0)})
    shared.begin([shared.replica(conf, app="the_other_app")])
    since = shared.now
    shared.until(since + 4.2)
    arrivals = shared.arrivals(since)
    assert 7 <= len(arrivals) <= 9
    assert len({a.task_id for a in arrivals}) == len(arrivals)


def test_a_held_snapshot_costs_no_slot(
    postgres_server: PostgresStand,
    redis_server: RedisStand,
    queue_name: str,
    tell: Callable[[str, Verdict], None],
) -> None:
    """Idle in transaction for all of the run, as a forgotten psql session is."""
    with (
        postgres_server.fresh(migrated=True) as dsn,
        Cluster(
            dsn=dsn, broker_url=redis_server.url, queue=queue_name, entries=300
        ) as cluster,
        psycopg.connect(dsn) as reader,
    ):
        cluster.replicas(2)
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from pecker_tasks")
        since = cluster.await_slot(cluster.now)
        verdict = cluster.verdict(since, since + 6)
        size = reader.execute("select pg_table_size('pecker_tasks')").fetchone()
        told = f"a snapshot held, table of {size[0] // 1024 if size else 0} kB"
        tell(told, verdict)
    assert verdict.stands, verdict
    assert not verdict.lost


def test_a_forward_migration_under_running_replicas_costs_no_slot(
    shared: Cluster, tell: Callable[[str, Verdict], None]
) -> None:
    """A step that this version can live with: old and new replicas go on."""
    shared.replicas(2)
    since = shared.await_slot(shared.now)
    step = Migration(
        version=LATEST + 1,
        name="room for later",
        readable_from=LATEST,
        text="alter table {schema}.pecker_tasks add column later text",
    )
    assert migrate(shared.dsn, schema="public", steps=[*migrations(), step]) == [step]
    shared.replicas(1)
    verdict = shared.verdict(since, shared.next_due())
    tell("a forward migration", verdict)
    assert verdict.stands, verdict
    assert not verdict.lost
    assert all(node.process.exit_code is None for node in shared.beats)


def test_older_tables_are_refused_at_start_with_the_command_to_run(
    shared: Cluster,
) -> None:
    """Code that is newer than the tables does not try its luck."""
    with psycopg.connect(shared.dsn, autocommit=True) as connection:
        connection.execute("update pecker_migrations set version = version - 1")
    early = shared.replica()
    start([early])
    assert early.process.wait(ENDS_WITHIN) != 0
    said = early.process.life_log().rstrip().rpartition("\n")[2]
    assert f"at step {LATEST - 1}" in said
    assert f"needs {LATEST}" in said
    assert "pecker migrate" in said


def test_tables_that_need_a_newer_version_are_refused_at_start(shared: Cluster) -> None:
    """A step beyond this version's horizon: the message says what to install."""
    step = Migration(
        version=LATEST + 1,
        name="another world",
        readable_from=LATEST + 1,
        text="alter table {schema}.pecker_tasks add column later text",
    )
    migrate(shared.dsn, schema="public", steps=[*migrations(), step])
    late = shared.replica()
    start([late])
    assert late.process.wait(ENDS_WITHIN) != 0
    said = late.process.life_log()
    assert "another world" in said
    assert "newer" in said
    eventually(lambda: not shared.arrivals(), 1)
