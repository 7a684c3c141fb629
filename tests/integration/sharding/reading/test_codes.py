"""The codes of shards: what they are told from, in a grid and in lists."""

from __future__ import annotations

from typing import Any

import pytest

from celery_sharding.errors import InstanceNotFound
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Options
from tests.integration.sharding.conftest import Time
from tests.integration.sharding.reading.written import Written

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
