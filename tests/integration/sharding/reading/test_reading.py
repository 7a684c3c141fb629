"""What is told of jobs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_sharding.errors import JobNotFound
from celery_sharding.ledger import PACKAGE, Ledger
from celery_sharding.ledger.reading import Reading
from celery_sharding.model import Code, Outcome, Stage
from celery_sharding.overview import State, verdict
from celery_sharding.views import chosen
from tests.integration.sharding.reading.written import Written
from tests.proxy import Proxy


def test_progress_counts_items_of_ended_and_of_open_shards(
    ledger: Ledger, written: Written
) -> None:
    """A layer has the ended shards' items; running and returned ones their own."""
    job = written.job("a", total=200, layers=2)
    written.layer(job, 0, done=90, failed=10, open=0, closed_at=written.ago(40))
    written.layer(job, 1, done=5, shards=4, open=3, started_at=written.ago(40))
    written.shard(job, 0, status=301, cursor=10, done=10)
    written.shard(job, 1, 1, status=202, ticket=1, epoch=7, cursor=4, done=3, failed=1)
    written.shard(job, 2, 1, status=100, cursor=2, done=2)
    written.shard(job, 3, 1)
    told = ledger.reading.progress("a")
    assert (told.total, told.done, told.failed) == (200, 100, 11)
    assert [(one.done, one.failed) for one in told.layers] == [(90, 10), (10, 1)]
    assert told.stage is Stage.SHARDING
    assert told.rate == pytest.approx(111 / 50)
    assert told.eta is not None
    assert told.eta.total_seconds() == pytest.approx(89 / (111 / 50))
    assert told.elapsed == pytest.approx(60)


def test_progress_of_a_follower_is_that_of_its_leader(
    ledger: Ledger, written: Written
) -> None:
    """It has no shards of its own; its end is its own."""
    job = written.job("leader", total=100, key="k")
    written.layer(job, 0, done=30)
    written.job("follower", stage="submitted", key="k", follows=job)
    row = ledger.reading.job("follower")
    assert (row.leader, row.leading, row.stage) == ("leader", job, Stage.SHARDING)
    assert ledger.reading.progress("follower").done == 30
    assert len(ledger.reading.progress("follower").layers) == 1


def test_an_unknown_job_is_named(ledger: Ledger) -> None:
    """With the code by which other systems know it."""
    with pytest.raises(JobNotFound, match=r"^k_sc_ec_000004: .*'nope'"):
        ledger.reading.progress("nope")


def test_jobs_come_in_pages_the_youngest_first(
    ledger: Ledger, written: Written
) -> None:
    """A page begins behind the last of the page before."""
    numbers = [written.job(f"job-{n}") for n in range(5)]
    ended = written.job("old", stage="ended", outcome="succeeded", key="Upload-7")
    reading = ledger.reading
    first = reading.jobs(most=4)
    assert [row.job for row in first] == [ended, *numbers[:1:-1]]
    rest = reading.jobs(most=4, before=first[-1].job)
    assert [row.job for row in rest] == numbers[1::-1]
    assert ended not in [row.job for row in reading.jobs(open_only=True)]
    assert [row.outcome for row in reading.jobs(search="UPLOAD")] == [Outcome.SUCCEEDED]


def test_a_state_that_is_asked_for_is_the_one_that_is_shown(
    ledger: Ledger, written: Written
) -> None:
    """Of each job, leaders and followers; by task and age, too."""
    at: dict[str, Any] = {"submitted_at": written.ago(7_200)}
    for stage in ("submitted", "planning", "posting", "delivering", "sharding"):
        written.job(stage, stage=stage)
        written.job(f"{stage} paused", stage=stage, paused=True)
    for outcome in Outcome:
        job = written.job(f"{outcome}", stage="ended", outcome=outcome, **at)
        written.layer(job, 0, done=3, open=0)
    partly = written.job("partly", stage="ended", outcome="succeeded", task="t", **at)
    written.layer(partly, 0, done=2, failed=1, open=0)
    lead = written.job("lead", total=100, key="k")
    written.layer(lead, 0)
    written.hold(lead)
    written.job("follows", stage="submitted", key="k", follows=lead)
    jobs = ledger.reading.jobs
    stands = {row.task_id: verdict(row).state for row in jobs(most=100)}
    assert len(stands) == 16
    for live in (False, True):
        if live:
            seen = {"started_at": written.ago(9), "seen_at": written.ago(-60)}
            written.row("executors", "hostname", hostname="w1", slots=4, **seen)
            stands = {row.task_id: verdict(row).state for row in jobs(most=100)}
        for state in State:
            query = chosen({"state": state}, to_us(written.at))
            found = {row.task_id for row in jobs(most=100, **query)}
            assert found == {one for one, its in stands.items() if its == state}
    assert {*stands.values()} == {*State} - {State.STARVED}
    old = chosen({"older_than": "2h"}, to_us(written.at))
    assert {row.task_id for row in jobs(**old)} == {*Outcome, "partly"}
    assert [row.task_id for row in jobs(task="t")] == ["partly"]


def test_errors_come_in_pages_and_one_by_one(
    ledger: Ledger, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, in the order of their places, whatever the page's size."""
    job = written.job("a")
    other = written.job("b")
    written.error(other, 0, 0)
    places = [(0, -1), (0, 3), (0, 4), (2, -1), (2, 0)]
    for origin, place in reversed(places):
        written.error(job, origin, place)
    first = ledger.reading.errors(job, most=2)
    assert [(row.origin, row.place) for row in first] == places[:2]
    monkeypatch.setattr("celery_sharding.ledger.reading.PAGE", 2)
    told = [*ledger.reading.each_error("a")]
    assert [(error.shard, error.place) for error in told] == places
    assert told[1].item == {"row": 3}
    assert told[1].code is Code.FAILED


def test_results_come_in_pages_of_bounded_size(
    ledger: Ledger, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is no larger than the bound, but has one row in any case."""
    job = written.job("a")
    written.result(job, 0, 2, ["x", "y"])
    written.result(job, 0, -1, "returned")
    written.result(job, 1, 1, ["z" * 400])
    written.result(job, 2, 1, ["w"])
    monkeypatch.setattr("celery_sharding.ledger.reading.PAGE_BYTES", 100)
    reading = ledger.reading
    page = reading.results(job)
    assert [(row.shard, row.at) for row in page] == [(0, -1), (0, 2)]
    page = reading.results(job, after=(0, 2))
    assert [(row.shard, row.at) for row in page] == [(1, 1)]
    told = [*reading.each_result("a")]
    assert told == ["returned", "x", "y", "z" * 400, "w"]


def test_workers_that_live_are_told(ledger: Ledger, written: Written) -> None:
    """Those that were seen lately."""
    for name, age in (("w1", 3), ("w2", 16)):
        written.row(
            "executors",
            "hostname",
            hostname=name,
            slots=4,
            started_at=written.ago(90),
            seen_at=written.ago(age),
        )
    written.job("a")
    assert [row.hostname for row in ledger.placements.serving(None)] == ["w1"]
    assert ledger.reading.job("a").executors == 1


def test_who_may_wait_reads_on_when_postgresql_is_back(
    dsn: str, written: Written
) -> None:
    """As Post does, over three restarts of the server."""
    written.job("a")
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(given["port"] or 5432)) as proxy:
        way = make_conninfo("", **{**given, "host": "127.0.0.1", "port": proxy.port})
        database = Database.of(Settings(dsn=way, app="test"), package=PACKAGE)
        reading = Reading(database, waits=30.0)
        for _ in range(3):
            proxy.refuse()
            back = threading.Timer(0.2, proxy.open)
            back.start()
            assert reading.job("a").task_id == "a"
            back.join()
        database.close()
