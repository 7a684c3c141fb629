"""A job that an outbox records: submitted after the commit, or never."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from celery_pecker.outbox.app import outboxes
from celery_sharding.sources import File, KeyRange
from tests.integration.sharding.worker.conftest import Jobs
from tests.integration.sharding.worker.jobs_app import OUTBOX

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
SUBMITTED = "select task_id from pecker_jobs"


def test_a_job_in_a_block_of_an_outbox_is_part_of_its_transaction(
    jobs: Callable[..., Jobs], dsn: str, tmp_path: Path
) -> None:
    """A rollback leaves nothing that a sweeper could send; a commit all of the call."""
    made = jobs(**{OUTBOX: True})
    (outbox,) = outboxes(made.app)
    plain: Any = made.app.tasks["jobs.plain"]
    with psycopg.connect(dsn) as connection:
        with outbox.using(connection):
            plain.delay([1, 2, 3])
        connection.rollback()
        with outbox.using(connection):
            results = [plain.apply_async(([1, 2, 3],), sharding={"size": (1, 1)})]
        results.append(outbox.send(plain.s(KeyRange(1, 5)), connection=connection))
        file = File(tmp_path / "rows.txt")
        (tmp_path / "rows.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
        results.append(outbox.send(plain.s(file), connection=connection))
        rows = [([1],), ([2, 3],)]
        results += outbox.send_many(plain, rows, connection=connection)
        assert made.rows(SUBMITTED) == []
    made.worker("-P", "threads", "-c", "2")
    totals = [result.get(timeout=40.0)["done"] for result in results]
    assert totals == [3, 5, 4, 1, 2]
    assert len([*results[0].shards()]) == 3
    ids = {task_id for (task_id,) in made.rows(SUBMITTED)}
    assert ids == {result.id for result in results}
    outbox.close()
