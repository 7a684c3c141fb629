"""What is told of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from celery_sharding.errors import InstanceNotFound, JobNotFound
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Options, Outcome, Stage
from tests.integration.sharding.conftest import Time
from tests.integration.sharding.reading.written import Written


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


CODES: dict[int, tuple[Code, dict[str, Any]]] = {
    0: (Code.SUCCEEDED, {"status": 301}),
    1: (Code.FAILED, {"status": 302}),
    2: (Code.PUSHED, {"status": 201, "ticket": 1, "epoch": 7, "ago": 3}),
    3: (Code.STALLED, {"status": 201, "ticket": 1, "epoch": 7, "ago": 31}),
    4: (Code.RUNNING, {"status": 202, "ticket": 1, "epoch": 7, "ago": 9}),
    5: (Code.TIMED_OUT, {"status": 202, "ticket": 1, "epoch": 7, "ago": 41}),
    6: (Code.RUNNING, {"status": 202, "ticket": 1, "epoch": 7, "ago": 39, "cursor": 4}),
    7: (Code.TIMED_OUT, {"status": 202, "ticket": 1, "epoch": 7, "ago": 11}),
    8: (Code.DIED, {"status": 202, "ticket": 1, "epoch": 6, "ago": 3}),
    9: (Code.DIED, {"status": 202, "ticket": 2, "epoch": 7, "ago": 3}),
    10: (Code.DIED, {"status": 201, "ticket": 3, "epoch": 7, "ago": 3}),
    11: (Code.READY, {"status": 100}),
    12: (Code.WAITING, {"status": 100, "not_before": -5}),
    13: (Code.TIMED_OUT, {"status": 203}),
    14: (Code.DIED, {"status": 403}),
    15: (
        Code.RUNNING,
        {"status": 202, "ticket": 1, "epoch": 7, "ago": 11, "deaths": 1},
    ),
    16: (Code.PUSHED, {"status": 201, "ticket": 1, "epoch": 7, "ago": 39, "cursor": 3}),
    17: (Code.WAITING, {"status": 100, "layer": 1}),
}
"""The code, and what it is told from; ages in seconds."""


def _coded(written: Written, **given: Any) -> int:
    options = Options(shard_deadline=40.0, item_timeout=10.0)
    job = written.job("a", options=options, total=160, layers=2, **given)
    written.layer(job, 0, shards=17, open=17)
    written.layer(job, 1, started_at=None)
    written.hold(job, 1)
    written.hold(job, 2, leased_until=written.ago(1))
    written.hold(job, 3, state="idle", leased_until=None)
    for shard, (_, told) in CODES.items():
        row = {**told}
        if "ago" in row:
            row["claimed_at"] = written.ago(row.pop("ago"))
        if "not_before" in row:
            row["not_before"] = written.ago(row["not_before"])
        written.shard(job, shard, **row)
    return job


def _grid(ledger: Ledger, task_id: str = "a") -> list[int]:
    """Return the codes of all places, by the numbers of their shards."""
    grid = ledger.reading.grid(ledger.reading.job(task_id).leading)
    told: dict[int, int] = {}
    for line in grid.lines:
        first = line.first
        for code, length in line.runs():
            told.update(dict.fromkeys(range(first, first + length), int(code)))
            first += length
    return [told[number] for number in sorted(told)]


def test_codes_are_told_from_the_rows_and_the_time(
    ledger: Ledger, written: Written
) -> None:
    """Alike in the grid and in lists."""
    job = _coded(written)
    expected = [int(code) for code, _ in CODES.values()]
    assert [int(row.code) for row in ledger.reading.shards(job)] == expected
    assert _grid(ledger) == expected


def test_what_nobody_claims_for_long_is_untaken(
    ledger: Ledger, written: Written, time: Time
) -> None:
    """Not while somebody holds a ticket, nor while it rests until a moment."""
    job = written.job("a", total=10)
    written.layer(job, 0, started_at=written.ago(29))
    written.shard(job, 0)
    assert _grid(ledger) == [Code.READY]
    time.step(2)
    assert _grid(ledger) == [Code.UNTAKEN]
    assert ledger.reading.shards(job)[0].code is Code.UNTAKEN
    written.row("tickets", job=job, ticket=1, wake_at=written.ago(-60))
    assert _grid(ledger) == [Code.READY]
    written.hold(job, 2, leased_until=written.ago(-60))
    assert _grid(ledger) == [Code.READY]


def test_nothing_is_untaken_in_a_job_that_is_paused(
    ledger: Ledger, written: Written
) -> None:
    """Somebody wants it so."""
    job = written.job("a", total=10, paused=True)
    written.layer(job, 0, started_at=written.ago(500))
    written.shard(job, 0)
    assert _grid(ledger) == [Code.READY]


def test_shards_of_a_job_that_was_cancelled_wait_and_did_not_die(
    ledger: Ledger, written: Written
) -> None:
    """They were let go: nothing is wrong with their processes."""
    job = written.job("a", stage="ended", outcome="cancelled", total=20)
    written.layer(job, 0)
    written.shard(job, 0, status=202, ticket=1, epoch=7, claimed_at=written.ago(3))
    written.shard(job, 1)
    assert _grid(ledger) == [Code.WAITING, Code.WAITING]


def test_a_grid_tells_shards_that_repeat_others_in_their_layer(
    ledger: Ledger, written: Written
) -> None:
    """Their numbers come behind all others, of whatever layer; some may be missing."""
    job = written.job("a", total=100, layers=2)
    written.hold(job)
    for shard in range(10):
        written.shard(job, shard, shard // 5, status=301)
    written.shard(job, 10, 0, origin=1, status=302)
    written.shard(job, 11, 1, origin=6, status=302)
    written.shard(job, 12, 0, origin=2)
    grid = ledger.reading.grid(job)
    lines = [(line.layer, line.first, line.compact) for line in grid.lines]
    assert lines == [
        (0, 0, "a5"),
        (0, 10, "i"),
        (0, 12, "c"),
        (1, 5, "a5"),
        (1, 11, "i"),
    ]
    assert grid.counts == {Code.SUCCEEDED: 10, Code.READY: 1, Code.FAILED: 2}


def test_shards_are_found_by_code_layer_and_number(
    ledger: Ledger, written: Written
) -> None:
    """Derived codes too; an unknown shard is refused with its code."""
    job = _coded(written)
    reading = ledger.reading
    died = reading.shards(job, status=Code.DIED)
    assert [row.shard for row in died] == [8, 9, 10, 14]
    page = reading.shards(job, status=[Code.DIED, Code.FAILED], after=8, most=1)
    assert [row.shard for row in page] == [9]
    assert [row.shard for row in reading.shards(job, layer=1)] == [17]
    assert reading.shard(job, 4).hostname == "w1"
    with pytest.raises(InstanceNotFound, match=r"^k_sc_ec_100004: .*99"):
        reading.shard(job, 99)


def test_stragglers_are_those_claimed_longest_ago(
    ledger: Ledger, written: Written
) -> None:
    """Ended ones are none."""
    job = _coded(written)
    found = ledger.reading.stragglers(job, most=3)
    assert [row.shard for row in found] == [5, 6, 16]
    assert found[0].spent == pytest.approx(41)


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
    assert [row.hostname for row in ledger.reading.executors()] == ["w1"]
    assert ledger.reading.job("a").executors == 1
