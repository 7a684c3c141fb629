"""What a result says once the backend has forgotten it, or after another run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.exceptions import TimeoutError as Waited

from celery_pecker import deadline
from celery_sharding import JobCancelled, ShardedResult, ShardedTask, Sharding, flow
from celery_sharding.ledger import Ledger, at
from tests.integration.sharding.conftest import Planner
from tests.integration.sharding.flow.conftest import Lying, Message
from tests.integration.sharding.shift import run_job

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated")

TASK = "proj.import_rows"
Deliver = Callable[[Message], Any]


@pytest.fixture
def posts(sharding: Sharding) -> ShardedTask:
    """Give the task; its Post counts results, or refuses."""

    @sharding.task(name=TASK)
    def import_rows(shard: Any) -> None:
        del shard

    @import_rows.post_process
    def post(job: Any, results: Any, errors: Any) -> Any:
        if job.args == ("refuse",):
            raise LookupError(*job.args)
        return len([*results])

    return import_rows


@pytest.fixture
def result(app: Celery, posts: Any, planned: Planner) -> ShardedResult:
    """Give the result of a job that has not ended."""
    return ShardedResult.restore(planned(((2, 1),)).task_id, app=app)


def ended(app: Celery, ledger: Ledger, job: str, lying: Lying, deliver: Any) -> None:
    """Run what is left of a job, and its Post."""
    number = ledger.reading.job(job).job
    run_job(ledger, number)
    lying()
    flow.advance_job(app, at(app), number)
    deliver(lying()[-1])


def test_the_ledger_answers_where_the_backend_has_nothing(
    app: Celery,
    ledger: Ledger,
    result: ShardedResult,
    planned: Planner,
    lying: Lying,
    deliver: Deliver,
) -> None:
    """It keeps a result for a day, the ledger jobs for seven."""
    assert result.state == "PENDING"
    with pytest.raises(Waited):
        result.get(timeout=0.1)
    refused = planned(((1,),), args=("refuse",)).task_id
    cancelled = planned(((1,),)).task_id
    for job in (str(result.id), refused):
        ended(app, ledger, job, lying, deliver)
    flow.cancel(app, at(app), cancelled)
    for job in (str(result.id), refused, cancelled):
        app.backend.forget(job)
    assert (result.state, result.get(timeout=30.0), result.ready()) == (
        "SUCCESS",
        3,
        True,
    )
    failed = ShardedResult.restore(refused, app=app)
    assert (failed.state, repr(failed.result)) == ("FAILURE", "LookupError('refuse')")
    assert "raise LookupError" in str(failed.traceback)
    with pytest.raises(LookupError):
        ShardedResult.restore(refused, app=app).get(timeout=30.0)
    again = ShardedResult.restore(cancelled, app=app)
    assert str(again.state) == "REVOKED"
    with pytest.raises(JobCancelled):
        again.get(timeout=30.0)


def test_a_job_that_ends_between_two_looks_has_its_result(
    app: Celery,
    ledger: Ledger,
    result: ShardedResult,
    lying: Lying,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Celery's `get` looks once more as it subscribes: the ledger answers then."""
    backend: Any = app.backend
    subscribe = backend.add_pending_result

    def end_first(pending: Any, **options: Any) -> Any:
        ended(app, ledger, str(result.id), lying, deliver)
        backend.forget(result.id)
        return subscribe(pending, **options)

    monkeypatch.setattr(backend, "add_pending_result", end_first)
    assert result.get(timeout=30.0) == 3
    assert result.ready()


def test_a_job_that_others_rerun_is_waited_for(
    app: Celery, ledger: Ledger, result: ShardedResult, lying: Lying, deliver: Deliver
) -> None:
    """By the command, or in Flower: whoever asks next knows nothing of it.

    Nor does who read the value of the run before, whether asked in the meantime or not.
    """
    fresh, unasked, new = (
        ShardedResult.restore(str(result.id), app=app) for _ in range(3)
    )
    result.cancel()
    for one in (result, unasked, result):
        with pytest.raises(JobCancelled):
            one.get(timeout=30.0)
    ledger.control.retry_failed(str(result.id))
    for one in (result, fresh, result):
        with pytest.raises(Waited):
            one.get(timeout=0.5)
    ledger.database._connected().execute("update pecker_tickets set state = 'idle'")
    ended(app, ledger, str(result.id), lying, deliver)
    for one in (new, fresh, result, unasked):
        assert (one.get(timeout=30.0), one.result, one.get(timeout=30.0)) == (3, 3, 3)


@pytest.mark.parametrize("known", [True, False])
def test_a_result_whose_reader_is_struck_leaves_no_statement_behind(
    app: Celery, result: ShardedResult, dsn: str, *, known: bool
) -> None:
    """The deadline is the reader's; what the thread asks next has its answer."""
    if known:
        result.cancel()
        assert result.ready()
    ledger = at(app, role="caller")
    stands = ledger.outcomes.stage_of(str(result.id))
    with psycopg.connect(dsn) as busy:
        busy.execute("lock table pecker_jobs")
        with (
            pytest.raises(deadline.DeadlineExceeded),
            deadline.within(0.3),
            deadline.enforce("prefork"),
        ):
            result.get()
    assert ledger.outcomes.stage_of(str(result.id)) == stands


def test_a_result_after_another_run_is_that_runs(
    app: Celery, ledger: Ledger, result: ShardedResult, lying: Lying, deliver: Deliver
) -> None:
    """What came of the former run while nobody waited lies in Celery's buffer."""
    result.cancel()
    with pytest.raises(JobCancelled):
        result.get(timeout=30.0)
    meta = app.backend.get_task_meta(result.id)
    backend: Any = app.backend
    backend.result_consumer.on_state_change(meta, None)  # it is published twice
    result.retry_failed()
    ledger.database._connected().execute("update pecker_tickets set state = 'idle'")
    ended(app, ledger, str(result.id), lying, deliver)
    assert result.get(timeout=30.0) == 3
