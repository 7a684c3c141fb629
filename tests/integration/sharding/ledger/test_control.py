"""Pause, cancel, changes: one write each, in force with the next word of the ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_sharding.errors import JobNotFound, Misconfigured, WrongStage
from celery_sharding.ledger import Ledger
from celery_sharding.model import Outcome, Stage
from celery_sharding.policies import FailFast, Isolate
from tests.integration.sharding.conftest import Planner
from tests.integration.sharding.shift import LEASE, ended, goes_on, run_job, taken

Submit = Callable[..., str]
MANY = 100_000


def test_a_paused_job_begins_nothing(ledger: Ledger, planned: Planner) -> None:
    """Who holds a ticket hears it, and nobody gets another until it goes on."""
    ready = planned(((10,) * 5,))
    turn = taken(ledger, ready.job)
    ledger.control.pause(ready.task_id)
    assert not goes_on(ledger.tickets.renew(turn.hold, LEASE), turn.hold)
    assert ledger.tickets.to_publish(ready.job, slots=None, resend=10) == []
    assert ledger.control.pause(ready.task_id) == ready.job
    ledger.control.resume(ready.task_id)
    assert goes_on(ledger.tickets.renew(turn.hold, LEASE), turn.hold)
    assert ledger.tickets.to_publish(ready.job, slots=None, resend=10)


def test_a_cancelled_job_is_decided_for_good(ledger: Ledger, planned: Planner) -> None:
    """Holders hear it, and whoever cancels it again is told that it is too late."""
    ready = planned(((10,) * 5,))
    turn = taken(ledger, ready.job)
    ledger.control.cancel(ready.task_id)
    assert not goes_on(ledger.tickets.renew(turn.hold, LEASE), turn.hold)
    decided = ledger.outcomes.decided(ready.task_id)
    assert decided is not None
    assert (decided.stage, decided.outcome) == (Stage.DELIVERING, Outcome.CANCELLED)
    with pytest.raises(WrongStage, match="its stage is delivering, not submitted"):
        ledger.control.cancel(ready.task_id)


@pytest.mark.slow
def test_pausing_and_cancelling_write_one_row_whatever_the_size(
    ledger: Ledger, planned: Planner
) -> None:
    """100,000 shards wait: none of their rows is written to."""
    ready = planned(((1,) * MANY,))
    cursor = ledger.database._connected().cursor()
    written = (
        "select relname, n_tup_upd + n_tup_ins + n_tup_del"
        " from pg_stat_xact_user_tables where relname like 'pecker_%'"
    )
    with ledger.database.transaction():
        ledger.control.pause(ready.task_id)
        ledger.control.resume(ready.task_id)
        ledger.control.cancel(ready.task_id)
        rows = dict(cursor.execute(written).fetchall())
    assert {table: count for table, count in rows.items() if count} == {
        "pecker_jobs": 3
    }


def test_options_are_changed_while_a_job_runs(ledger: Ledger, planned: Planner) -> None:
    """Holders hear of the concurrency; the rest is in force for what is begun."""
    ready = planned(((10,) * 5,), on_error=Isolate(max_failed=5), concurrency=4)
    turn = taken(ledger, ready.job)
    ledger.control.options(
        ready.task_id, max_failed="1%", item_timeout=7.0, deadline=60
    )
    ledger.control.options(ready.task_id, concurrency=1)
    word = ledger.tickets.renew(turn.hold, LEASE)
    assert word.concurrency == 1
    ledger.tickets.set_idle(turn.hold)
    options = taken(ledger, ready.job).options
    assert options.on_error == Isolate(max_failed="1%")
    assert (options.item_timeout, options.concurrency, options.deadline) == (7.0, 1, 60)
    job = ledger.reading.job(ready.task_id)
    assert job.deadline_at is not None
    assert (job.deadline_at - job.submitted_at).total_seconds() == 60
    ledger.control.options(ready.task_id, deadline=None)
    assert ledger.reading.job(ready.task_id).deadline_at is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"max_failed": "many"}, "max_failed must be"),
        ({"size": (1, 2)}, "size cannot be changed while a job runs; concurrency"),
        ({"item_timeout": -1}, "item_timeout"),
    ],
)
def test_what_cannot_be_is_refused(
    ledger: Ledger, planned: Planner, changes: dict[str, object], said: str
) -> None:
    """With the option and what is allowed; the job stays as it is."""
    ready = planned()
    before = ledger.reading.job(ready.task_id).options
    with pytest.raises(Misconfigured, match=said):
        ledger.control.options(ready.task_id, **changes)
    assert ledger.reading.job(ready.task_id).options == before


def test_a_policy_without_a_limit_gets_none(ledger: Ledger, planned: Planner) -> None:
    """FailFast has nothing to be changed."""
    ready = planned(on_error=FailFast())
    with pytest.raises(Misconfigured, match="kind fail_fast has no max_failed"):
        ledger.control.options(ready.task_id, max_failed=3)


def test_unknown_and_ended_jobs_are_refused(ledger: Ledger, planned: Planner) -> None:
    """With the code, the id, and where the job is."""
    actions: list[Callable[[str], object]] = [
        ledger.control.pause,
        ledger.control.resume,
        ledger.control.cancel,
        lambda task_id: ledger.control.options(task_id, concurrency=2),
        lambda task_id: ledger.control.options(task_id, deadline=3),
    ]
    for act in [*actions, ledger.control.retry_failed]:
        with pytest.raises(JobNotFound, match=r"k_sc_ec_000004: .*'nobody'"):
            act("nobody")
    with pytest.raises(JobNotFound):
        ledger.control.rerun("nobody", [0])
    ready = planned()
    with pytest.raises(WrongStage, match="its stage is sharding, not ended"):
        ledger.control.retry_failed(ready.task_id)
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    for act in actions:
        with pytest.raises(WrongStage, match="its stage is ended, not submitted"):
            act(ready.task_id)
