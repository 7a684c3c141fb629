"""A server goes away in the middle of a job, and comes back: the job ends, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.testing import EmbeddedPostgres, eventually
from tests.integration.outbox_relay.standby import (
    answer_what_is_replicated,
    either,
    promote,
    replicated,
)
from tests.integration.sharding.worker.conftest import Jobs
from tests.proxy import Proxy

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
Make = Callable[..., Jobs]
ITEMS = [*range(200)]
BRIEF: dict[str, Any] = {
    "sharding_lease": 2.0,
    "constants": {"resend": 1.0},
    "pecker_database_timeout": 1.0,
}


class Way:
    """A way to PostgreSQL that can be blocked."""

    def __init__(self, dsn: str, proxy: Proxy) -> None:
        self.proxy = proxy
        given = {**conninfo_to_dict(dsn), "host": "127.0.0.1", "port": str(proxy.port)}
        self.dsn = make_conninfo(**given)  # type: ignore[arg-type]  # texts


@pytest.fixture
def way(dsn: str) -> Iterator[Way]:
    """Give a way to this test's database."""
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(given["port"] or 5432)) as proxy:
        yield Way(dsn, proxy)


def begun(made: Jobs, dsn: str) -> Any:
    """Return the result of a job that is in the middle."""
    result = made.app.tasks["jobs.plain"].apply_async((ITEMS,), {"pace": 0.03})

    def middle() -> bool:
        with psycopg.connect(dsn) as connection:
            found = connection.execute("select sum(done) from pecker_shards")
            row = found.fetchone()
        return row is not None and (row[0] or 0) > 20

    eventually(middle, 40.0, "it is in the middle")
    return result


def whole(result: Any) -> None:
    """The job ends with each item once."""
    assert result.get(timeout=90.0) == {"total": 200, "done": 200, "failed": 0}
    assert sorted(result.results()) == ITEMS


@pytest.mark.parametrize("how", ["hang", "mute", "refuse", "cut"])
def test_postgresql_cannot_be_reached(jobs: Make, dsn: str, way: Way, how: str) -> None:
    """For longer than a lease, without an answer or with a reset; or for a moment."""
    made = jobs(pecker_dsn=way.dsn, **BRIEF)
    worker = made.worker("-P", "prefork", "-c", "2")
    result = begun(made, dsn)
    getattr(way.proxy, how)()
    if how != "cut":
        line = "for the ledger" if how != "mute" else "sharding: "
        eventually(lambda: line in worker.life_log(), 40.0, "a worker noticed")
        eventually(lambda: _lapsed(dsn), 40.0, "leases are over")
        way.proxy.open()
    whole(result)


def _lapsed(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select count(*) from pecker_tickets where leased_until > clock_timestamp()"
        )
        row = found.fetchone()
    return row is not None and row[0] == 0


def test_postgresql_is_killed_and_starts_again(
    jobs: Make, own_postgres: Callable[..., EmbeddedPostgres]
) -> None:
    """What it had said to have written is there."""
    server = own_postgres(migrated=True)
    made = jobs(pecker_dsn=server.dsn, **BRIEF)
    made.worker("-P", "prefork", "-c", "2")
    result = begun(made, server.dsn)
    server.kill()
    server.start()
    whole(result)


@pytest.mark.soak
def test_a_standby_is_promoted(jobs: Make) -> None:
    """The address names both servers; what was answered has been replicated."""
    with replicated() as (primary, standby):
        answer_what_is_replicated(primary)
        made = jobs(pecker_dsn=either(primary, standby), **BRIEF)
        made.worker("-P", "prefork", "-c", "2")
        result = begun(made, primary.dsn)
        primary.kill()
        promote(standby)
        whole(result)


def test_postgresql_is_read_only_for_a_while(
    jobs: Make, own_postgres: Callable[..., EmbeddedPostgres]
) -> None:
    """As a primary is that was demoted, until the way leads to the new one."""
    server = own_postgres(migrated=True)
    made = jobs(pecker_dsn=server.dsn, **BRIEF)
    worker = made.worker("-P", "prefork", "-c", "2")
    result = begun(made, server.dsn)
    _read_only(server.dsn, "on")
    eventually(lambda: "read-only" in worker.life_log(), 30.0, "a worker noticed")
    _read_only(server.dsn, "off")
    whole(result)


def _read_only(dsn: str, on: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.execute(
            f"alter system set default_transaction_read_only = {on}".encode()
        )
        connection.execute("select pg_reload_conf()")


def test_the_broker_loses_all_messages(jobs: Make, dsn: str, redis_url: str) -> None:
    """Each was only a word that there is work."""
    made = jobs(**BRIEF)
    made.worker("-P", "prefork", "-c", "2")
    result = begun(made, dsn)
    client: Any = redis.Redis.from_url(redis_url)
    for _ in range(3):
        client.flushall()
        done = result.progress.done
        eventually(lambda: result.progress.done > done + 10, 40.0, "it goes on")  # noqa: B023
    eventually(lambda: str(result.progress.stage) == "ended", 60.0, "it has ended")
    assert sorted(result.results()) == ITEMS


def test_a_frozen_worker_wakes_when_others_have_its_shards(
    jobs: Make, dsn: str
) -> None:
    """Nothing that it writes then counts."""
    made = jobs(**BRIEF)
    frozen = made.worker("-P", "threads", "-c", "2")
    result = begun(made, dsn)
    made.worker("-P", "prefork", "-c", "2")
    frozen.kill("SIGSTOP")
    eventually(lambda: _lapsed(dsn) or result.progress.done > 120, 40.0, "others go on")
    eventually(lambda: result.progress.done > 150, 40.0, "others go on")
    frozen.kill("SIGCONT")
    whole(result)


def test_what_follows_is_not_sent_while_results_cannot_be_stored(
    jobs: Make, dsn: str, redis_url: str
) -> None:
    """The outcome is told when the backend answers, and the next step runs once."""
    with Proxy.before(redis_url) as proxy:
        made = jobs(
            result_backend=proxy.url,
            result_backend_transport_options={
                "retry_policy": {"max_retries": 1, "interval_max": 0.1}
            },
            **BRIEF,
        )
        made.worker("-P", "prefork", "-c", "2")
        signature: Any = made.app.tasks["jobs.plain"].s(ITEMS, pace=0.03)
        signature.link(made.app.tasks["jobs.told"].s())
        result: Any = signature.apply_async()
        eventually(lambda: result.progress.done > 20, 40.0, "it is in the middle")
        proxy.refuse()
        eventually(
            lambda: made.rows("select 1 from pecker_jobs where stage = 'delivering'"),
            60.0,
            "Post has ended",
        )
        eventually(
            lambda: made.rows(
                "select 1 from pecker_jobs"
                " where decided_at < clock_timestamp() - interval '10 s'"
            ),
            60.0,
            "it was tried a few times",
        )
        assert made.seen() == {}
        proxy.open()
        eventually(
            lambda: made.rows("select 1 from pecker_jobs where stage = 'ended'"),
            90.0,
            "it has ended",
        )
        assert str(result.state) == "SUCCESS"
        eventually(lambda: made.seen() == {"told": 1}, 30.0, "the next step ran")
