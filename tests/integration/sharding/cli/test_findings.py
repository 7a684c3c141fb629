"""What the page *Now* and ``doctor`` find of sharded jobs, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.cli import pecker
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.view import CAUSES, NOW
from tests.command_line import Line, lines
from tests.integration.sharding.reading.written import Written


@pytest.fixture
def now(dsn: str) -> Iterator[Line]:
    """Give the command line of an app on this test's own database."""
    with lines(pecker, pecker_database_timeout=1.0) as make:
        yield make(dsn)


def found(line: Line, code: int = 1) -> dict[str, Any]:
    """Return what is found of jobs, by its check."""
    every = [
        one
        for cause in line.json("now", code=code)["causes"]
        for one in (cause, *cause["consequences"])
    ]
    return {one["check"]: one for one in every if one["check"].startswith("jobs")}


def test_jobs_that_need_a_hand_are_named_each_with_what_ends_it(
    now: Line, written: Written
) -> None:
    """Failed, at a stand, and with shards that nobody takes; calm ones are not."""
    assert found(now, code=0) == {}
    written.job("calm")
    ended: Any = {"stage": "ended", "outcome": "failed", "ended_at": written.ago(30)}
    error = {"type": "ValueError", "message": "no good"}
    failed = written.job("failed-1", **ended, error=error)
    written.layer(failed, 0)
    ready = written.job("ready-1", submitted_at=written.ago(200), planned_at=None)
    written.layer(ready, 0, started_at=written.ago(190))
    written.shard(ready, 0)
    assert found(now).keys() == {"jobs failed", "jobs untaken"}
    gone = written.job("gone-1")
    written.layer(gone, 0)
    written.shard(gone, 0, status=202, claimed_at=written.ago(100))
    jobs = found(now)
    assert jobs.keys() == {"jobs failed", "jobs untaken", "jobs wait"}
    assert (
        "failed-1; the job has failed: ValueError: no good"
        in (jobs["jobs failed"]["text"])
    )
    assert "ready-1; 1 of its shards is ready" in jobs["jobs untaken"]["text"]
    assert "claimed by a worker that is gone" in jobs["jobs wait"]["text"]
    assert [jobs[one]["opens"] for one in sorted(jobs)] == [
        "sharding/job?id=failed-1",
        "sharding/job?id=ready-1",
        "sharding/job?id=gone-1",
    ]
    written.job("failed-2", **ended, error=error)
    assert found(now)["jobs failed"]["opens"] == "sharding"


def test_what_failed_is_retried_from_where_it_is_seen(
    now: Line, written: Written
) -> None:
    """All that the finding names; what somebody else retried stops no other."""
    for number in (1, 2):
        written.job(
            f"failed-{number}",
            stage="ended",
            outcome="failed",
            ended_at=written.ago(30),
            error={"type": "ValueError", "message": "no good"},
        )
    settings = Settings.read(now.app.conf, main=now.app.main)
    project = Project(now.app, settings, Database.of(settings))
    assert found(now)["jobs failed"]["act"] == "retry_jobs"
    act: Any = NOW.acts["retry_jobs"][0]
    said = act.do(project, [""], "anna", CAUSES).said
    assert said == ["Their failed items run again, then Post: 2 jobs."]
    assert found(now, code=0) == {}
    project.close()


def test_doctor_looks_at_them_too(now: Line, written: Written) -> None:
    """It is the same list."""
    written.job("failed-1", stage="ended", outcome="failed", ended_at=written.ago(30))
    checks = [one["check"] for one in now.json("doctor", code=1)["findings"]]
    assert "jobs failed" in checks
