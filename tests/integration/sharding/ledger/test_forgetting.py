"""The purge, and who wants a job again just then: one of them has it, whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_sharding.errors import JobNotFound
from celery_sharding.ledger import Ledger
from tests.integration.sharding.conftest import Planner, Ready, Time
from tests.integration.sharding.shift import ended, run_job


@pytest.fixture
def old(ledger: Ledger, planned: Planner, time: Time) -> Ready:
    """Give a job of 2 shards that ended an hour ago."""
    ready = planned(((3, 3),))
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    time.step(3_600)
    return ready


def stored(ledger: Ledger, job: int) -> dict[str, int]:
    """Return how many rows of the job each table has."""
    connection = ledger.database._connected()
    return {
        table: connection.execute(
            f"select count(*) from pecker_{table} where job = {job}"  # noqa: S608
        ).fetchone()[0]  # type: ignore[index]
        for table in ("shards", "items", "layers", "tickets")
    }


def test_a_job_that_runs_again_keeps_all_its_rows(
    ledger: Ledger,
    open_ledger: Callable[[], Ledger],
    old: Ready,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was asked for after the purge had chosen it: nothing of it is gone."""
    before = stored(ledger, old.job)
    purging, caller = open_ledger(), open_ledger()
    change = purging.upkeep._change
    asked: list[str] = []

    def first_the_caller(label: str, **params: object) -> int:
        if not asked:
            asked.append(label)
            try:
                caller.control.rerun(old.task_id, [0])
            except JobNotFound:
                asked.append("refused")
        return change(label, **params)

    monkeypatch.setattr(purging.upkeep, "_change", first_the_caller)
    purging.upkeep.purge(60)
    if "refused" in asked:
        assert set(stored(ledger, old.job).values()) == {0}
    else:
        assert stored(ledger, old.job) == before


def test_a_job_that_is_half_gone_does_not_run_again(ledger: Ledger, old: Ready) -> None:
    """Its Post would be given a part for the whole."""
    ledger.upkeep.purge(60, most=1)
    assert sum(stored(ledger, old.job).values()) > 0
    with pytest.raises(JobNotFound, match="being forgotten"):
        ledger.control.retry_failed(old.task_id)
    with pytest.raises(JobNotFound, match="being forgotten"):
        ledger.control.rerun(old.task_id, [0])
    while ledger.upkeep.purge(60, most=1):
        pass
    assert ledger.outcomes.stage_of(old.task_id) is None


def test_a_job_that_runs_is_not_chosen(
    ledger: Ledger, open_ledger: Callable[[], Ledger], old: Ready
) -> None:
    """Its new run began first, and is not yet committed: the purge passes it over."""
    other = open_ledger()
    with ledger.database.transaction():
        ledger.control._run("reopen_job", task_id=old.task_id)
        other.upkeep.purge(60)
    assert all(stored(ledger, old.job).values())
