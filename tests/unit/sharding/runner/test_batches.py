"""How many shards are claimed at once."""

from __future__ import annotations

import pytest

from celery_sharding.runner.slice import MOST, TARGET, Batches, ItemBatch


def after(batch: ItemBatch, each: float, times: int = 10, slice_: float = 1.0) -> int:
    """Return its size after so many batches of shards that took `each` seconds."""
    for _ in range(times):
        batch.took(batch.size, batch.size * each, slice_=slice_)
    return batch.size


@pytest.mark.parametrize(
    ("each", "size"), [(0.01, 30), (0.1, 3), (1.0, 1), (60.0, 1), (0.0, MOST)]
)
def test_a_batch_is_a_moment_s_work(each: float, size: int) -> None:
    """However long its shards take."""
    assert after(ItemBatch(), each) == pytest.approx(size, abs=1)


def test_it_is_never_more_than_half_of_a_slice() -> None:
    """Others are to get their turn."""
    assert after(ItemBatch(), 0.01, slice_=0.1) * 0.01 <= 0.05 < TARGET


def test_it_begins_with_one_and_grows() -> None:
    """Nothing is known of a job at first, or after a death."""
    batch = ItemBatch()
    assert (batch.size, after(batch, 1e-4, 1), after(batch, 1e-4, 1)) == (1, 4, 16)
    batch.alone()
    assert (batch.size, after(batch, 1e-4, 1)) == (1, 4)


def test_a_shard_that_took_long_makes_the_next_batch_small() -> None:
    """At once."""
    batch = ItemBatch()
    after(batch, 1e-4)
    assert after(batch, 1.0, 1) == 1


def test_jobs_are_remembered_the_last_ones() -> None:
    """A process sees many jobs in its life."""
    batches = Batches()
    first = batches.of(1)
    assert batches.of(1) is first
    for job in range(2, 300):
        batches.of(job)
    assert batches.of(1) is not first
