"""What the tests do to servers that others use too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from celery_pecker.testing import eventually
from tests.services import MARK, PostgresStand, RedisStand, hold_database, url_of
from tests.told import telling

ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal
from tests.told import told
from tests.services import PostgresStand
print(PostgresStand(told()[0]).create(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(dsn: str) -> set[str]:
    """Return the databases of a server."""
    with psycopg.connect(dsn) as connection:
        return {n for (n,) in connection.execute("select datname from pg_database")}


def test_databases_of_a_killed_run_are_dropped_by_the_next(
    postgres_server: PostgresStand,
) -> None:
    """And those of a run that lives are let be."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED],
        env=telling(postgres_server.dsn),
        check=False,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    assert killed in names(postgres_server.dsn)
    mine = postgres_server.create()

    def swept() -> bool:
        # The killed run's connection ends when the server notices.
        PostgresStand(postgres_server.dsn).close()
        return killed not in names(postgres_server.dsn)

    eventually(swept, message="the killed run's database is gone", interval=0.1)
    assert mine in names(postgres_server.dsn)
    postgres_server.drop(mine)


@pytest.mark.parametrize(
    "dsn", ["host=h port=1 user=u password='p@ss w' dbname=d", "x"]
)
def test_addresses_are_made_of_either_form(dsn: str) -> None:
    """Key and value, or a URL, with what stands behind the question mark."""
    given = dsn if dsn != "x" else "postgresql://u:p%40ss%20w@h:1/d?application_name=me"
    made = psycopg.conninfo.conninfo_to_dict(url_of(given, "other"))
    before = psycopg.conninfo.conninfo_to_dict(given)
    assert {k: str(v) for k, v in made.items()} == {
        **{k: str(v) for k, v in before.items()},
        "dbname": "other",
    }


def test_a_redis_database_that_holds_anything_is_refused(
    redis_server: RedisStand, redis_url: str
) -> None:
    """The tests would empty it."""
    if redis_server.shared:
        pytest.skip("needs a Redis with all of its databases")
    base = redis_url.rpartition("/")[0]
    with redis.Redis.from_url(f"{base}/9") as client:
        client.set("somebody's", 1)
        with pytest.raises(redis.RedisError, match="none is free"):
            hold_database(f"{base}/9")
        assert client.keys() == [b"somebody's"]


def test_two_runs_hold_different_databases_of_one_redis(
    redis_server: RedisStand, redis_url: str
) -> None:
    """Each flush keeps the mark, so that the other stays away."""
    if redis_server.shared:
        pytest.skip("needs a Redis with all of its databases")
    base = redis_url.rpartition("/")[0]
    first = RedisStand(hold_database(base), shared=True)
    first.flush()
    assert hold_database(base) != first.url
    with redis.Redis.from_url(first.url) as client:
        assert client.keys() == [MARK.encode()]
    first.close()
    assert hold_database(base) == first.url
