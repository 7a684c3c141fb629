"""What people see of a scheduler process, and ask of it, goes through the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.testing import eventually
from tests.nodes import READY, BeatNode, beat

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture
def node(redis_url: str, queue_name: str, dsn: str) -> Iterator[BeatNode]:
    """Give a scheduler process."""
    env = {
        "PECKER_TEST_QUEUE": queue_name,
        "PECKER_TEST_BROKER": redis_url,
        "PECKER_TEST_BEAT_DSN": dsn,
    }
    found = beat("tests.integration.beat.app", name="beat", cwd=ROOT, env=env)
    found.process.start()
    yield found
    found.teardown()


def test_a_scheduler_writes_its_history_and_answers_a_question(
    node: BeatNode, dsn: str
) -> None:
    """On a thread of its own, while nothing is due; within a look."""
    node.container.await_words(READY)
    with psycopg.connect(dsn, autocommit=True) as connection:

        def one(statement: str, *given: object) -> object:
            row = connection.execute(statement, given).fetchone()
            return row and row[0]

        eventually(lambda: one("select kind from pecker_replicas"))
        name = eventually(lambda: one("select name from pecker_declarations"))
        database = Database(dsn, schema="public", timeout=5.0, role="test")
        [(asked_us,)] = database.run(
            "insert_requested_run", name=name, by="test", now=None
        )
        database.close()
        eventually(
            lambda: one(
                "select true from pecker_history"
                " where %s = any (due_us) and 1 = any (report)",
                asked_us,
            )
        )
        assert one("select kind from pecker_replicas") == "beat"
        assert one("select count(*) from pecker_pending where asked") == 0
