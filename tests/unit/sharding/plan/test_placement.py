"""The assignment that is published, number for number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from celery_sharding.errors import Misconfigured, NoExecutor, PlanLimitExceeded
from celery_sharding.model import Cut, Options, Placement
from celery_sharding.plan import assign, cut
from celery_sharding.sources import KeyRange, Sizes
from tests.oracle.placement import moves, reassign


def test_the_published_example() -> None:
    """Three executors, nine shards; the first one dies."""
    dealt = assign(9, [1, 2, 3])
    assert dealt == {1: [0, 1, 2], 2: [3, 4, 5], 3: [6, 7, 8]}
    assert moves(dealt, 1) == {2: [0, 1], 3: [2]}
    assert reassign(dealt, 1) == {2: [0, 1, 3, 4, 5], 3: [2, 6, 7, 8]}


@pytest.mark.parametrize(
    ("shards", "held"),
    [
        (7, {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}),
        (8, {"a": [0, 1], "b": [2, 3, 4], "c": [5, 6, 7]}),
        (1, {"a": [0], "b": [], "c": []}),
        (2, {"a": [], "b": [0], "c": [1]}),
        (0, {"a": [], "b": [], "c": []}),
    ],
)
def test_what_is_left_over_goes_by_parity(
    shards: int, held: dict[str, list[int]]
) -> None:
    """Upward for an odd number, downward for an even one."""
    assert assign(shards, "abc") == held


def test_without_anybody_there_is_no_assignment() -> None:
    """It is said, with the code by which it is known."""
    with pytest.raises(NoExecutor, match=r"k_sc_ec_300006: 9 shards .* no worker"):
        assign(9, [])
    with pytest.raises(NoExecutor):
        reassign({"a": [0, 1]}, "a")
    assert assign(0, []) == {}
    assert reassign({"a": [0], "b": []}, "c") == {"a": [0], "b": []}


@pytest.mark.parametrize(
    ("items", "size", "executors", "shards"),
    [
        (1_000, (50, 2_000), 4, 4),  # as many as executors
        (120, (50, 2_000), 4, 2),  # little data, fewer
        (30, (50, 2_000), 4, 1),  # less than the least
        (10_000, (50, 2_000), 4, 8),  # much data, twice as many
        (1_000_000, (50, 500), 3, 2_001),  # the smallest multiple
        (1_000_000, (500, 500), 3, 2_000),  # which would not keep the least
        (10_000, (1, 1), 8, 10_000),
        (5, (1, 10), 0, 1),  # nobody seen yet
    ],
)
def test_how_many_shards(
    items: int, size: tuple[int, int], executors: int, shards: int
) -> None:
    """From the data, the sizes and who is there."""
    measure = Sizes(least=size[0], most=size[1], wanted=executors)
    assert len(measure.of(items)) == shards


def test_no_more_shards_than_may_run_at_once() -> None:
    """A job that is allowed two needs no shards for forty workers."""
    options = Options(size=(1, 1_000), concurrency=2)
    assert len([*cut([*range(100)], options, 40)]) == 2


def test_workers_that_own_shards_have_the_same_number_each() -> None:
    """However few may run at once; balanced within one where items are too few."""
    options = Options(size=(1, 1_000), concurrency=4, placement=Placement.EVEN)
    shards = cut([*range(100)], options, 40, owners=["a", "b", "c"])
    assert Counter(one.owner for one in shards) == {"a": 2, "b": 2, "c": 2}
    few = cut([*range(4)], options, 40, owners=["a", "b", "c"])
    assert Counter(one.owner for one in few) == {"a": 1, "b": 1, "c": 2}


def test_an_iterator_is_not_read_before_shards_are_asked_for() -> None:
    """So a million items are never in memory together."""
    items = iter(range(1_000_000))
    shards = cut(items, Options(size=(1, 10)), 4)
    assert next(items) == 0
    next(shards)
    assert next(items) == 51


@pytest.mark.parametrize(
    ("items", "size", "executors", "counts"),
    [
        (11, (5, 10), 1, [6, 5]),
        (55, (1, 10), 4, [10, 6, 6, 6, 6, 6, 5, 5, 5]),
        (31, (1, 10), 1, [10, 7, 7, 7]),
        (0, (1, 10), 4, []),
    ],
)
def test_the_end_of_an_iterator_is_not_a_remainder(
    items: int, size: tuple[int, int], executors: int, counts: list[int]
) -> None:
    """Its last shards are a round of their own, and none is left with hardly any."""
    shards = cut(iter(range(items)), Options(size=size), executors)
    assert [shard.count for shard in shards] == counts


def test_parts_that_are_empty_are_left_out() -> None:
    """A shard of nothing costs a claim; of one that cannot count, the most is meant."""

    class Some(KeyRange):
        """It gives what it was told to."""

        def parts(
            self, sizes: Sizes, conf: Mapping[str, Any]
        ) -> Iterator[tuple[dict[str, Any], int | None]]:
            """Give three parts."""
            del sizes, conf
            for count in (0, 3, None):
                yield {"first": 1, "count": count}, count

    shards = [*cut([Some(1, 3), ["a"]], Options(size=(1, 9)), 1)]
    assert [(shard.layer, shard.count) for shard in shards] == [(0, 3), (0, 9), (1, 1)]


def test_a_source_is_cut_where_it_is() -> None:
    """By index modulo would read all of it for each shard."""
    with pytest.raises(Misconfigured, match=r"cut='hash' needs the items themselves"):
        list(cut(KeyRange(1, 9), Options(cut=Cut.HASH), 1))


def test_shards_that_are_dealt_are_bounded() -> None:
    """How many there are is known at the end only: an endless iterator has none."""
    endless = iter(lambda: "an item", None)
    options = Options(placement=Placement.EVEN, size=(1, 10))
    with pytest.raises(PlanLimitExceeded, match="more than the 10000 bytes"):
        [*cut(endless, options, 2, owners=["a", "b"], limit=10_000)]
