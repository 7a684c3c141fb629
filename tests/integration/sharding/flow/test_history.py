"""Jobs in the history: how many were submitted and ended, by the minute."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figures import MINUTE_US
from celery_pecker.surfaces.views.history import Past, past
from celery_sharding import sweeper
from celery_sharding.ledger import Ledger, at
from tests.integration.sharding.conftest import Time

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")
JOBS = """
insert into pecker_jobs (task_id, task, stage, outcome, concurrency, options, call,
    continuation, submitted_at, ended_at, follows)
select 'task-' || nth, task,
    case when outcome is null then 'sharding' else 'ended' end,
    outcome, 1, '{}', '', '{}', now() - interval '2 minutes',
    case when outcome is not null then now() - interval '2 minutes' end, follows
from (values
    (1, 'proj.x', 'succeeded', null::bigint), (2, 'proj.x', 'succeeded', null),
    (3, 'proj.x', 'failed', null), (4, 'proj.x', 'cancelled', null),
    (5, 'proj.x', null, null), (6, 'proj.x', 'succeeded', 1),
    (7, 'proj.y', 'succeeded', null)
) as job (nth, task, outcome, follows)
"""


@pytest.fixture(autouse=True)
def by_the_database(time: Time) -> None:
    """All ledgers go by the database's clock: the sweeper has one of its own."""
    time.at = None


def shown(dsn: str, name: str) -> Past:
    """Return the last hour of jobs of a task; of no name: of all."""
    database = Database(dsn, schema="public", timeout=5.0, role="test")
    found = past(database, "job", name, length_us=60 * MINUTE_US)
    database.close()
    return found


def test_jobs_are_counted_once_by_whatever_process(
    app: Celery, ledger: Ledger, tell: Callable[..., None], dsn: str
) -> None:
    """One that follows another runs nothing, and counts nothing."""
    tell(JOBS)
    sweeper.sweep(app)
    ledger.upkeep.count_jobs()  # as another process does
    one = shown(dsn, "proj.x").total
    assert (one.published, one.succeeded, one.bad, one.cancelled) == (5, 2, 1, 1)
    assert shown(dsn, "").total.succeeded == 3
    # What is written stays, though a job that runs again has not ended.
    tell("update pecker_jobs set stage = 'sharding', outcome = null, ended_at = null")
    ledger.upkeep.count_jobs()
    assert shown(dsn, "proj.x").total.succeeded == 2


def test_a_sweep_goes_on_without_the_table(
    app: Celery, tell: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A line says it; and nothing is written where no history is kept."""
    tell("alter table pecker_figures rename to away")
    app.conf.pecker_history = 0
    with caplog.at_level(logging.WARNING):
        assert sweeper.sweep(app)
        assert not [one for one in caplog.messages if "history" in one]
    app.conf.pecker_history = 60
    at(app, role="sweeper").upkeep._count_at = 0.0
    with caplog.at_level(logging.WARNING):
        assert sweeper.sweep(app)
    assert len([one for one in caplog.messages if "not in the history" in one]) == 1
