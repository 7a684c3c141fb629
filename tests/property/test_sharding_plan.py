"""Whatever is cut: every item is in one shard, none in two, and shards are even."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from celery_sharding import codec
from celery_sharding.errors import CycleFound, ItemNotSerializable
from celery_sharding.layers import toposort
from celery_sharding.model import Cut, Options, Placement, Planned
from celery_sharding.plan import assign, cut
from celery_sharding.sources import File, KeyRange, Sizes, read
from tests.oracle.placement import moves, reassign

counts = st.integers(0, 3_000)
executors = st.integers(0, 40)
measures = st.tuples(st.integers(1, 300), st.integers(1, 300)).map(
    lambda pair: (min(pair), max(pair))
)
cuts = st.sampled_from(Cut)


def joined(parts: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the items of all parts, in order."""
    return [*chain.from_iterable(parts)]


def sizes(items: int, size: tuple[int, int], executors: int) -> list[int]:
    """Return the number of items of each shard."""
    return Sizes(least=size[0], most=size[1], wanted=executors).of(items)


def items_of(shard: Planned) -> list[Any]:
    """Return a shard's items, wherever they are."""
    if shard.body is not None:
        assert shard.reference is None
        return list(codec.decode(shard.body))
    assert shard.reference is not None
    return [*read(codec.decode(codec.encode(shard.reference)), {})]


@given(counts, measures, executors)
@example(51, (50, 50), 2)
@example(1_000_000, (50, 500), 2)
@example(7, (10, 20), 3)
def test_sizes(items: int, size: tuple[int, int], wanted: int) -> None:
    """All of the items, balanced within one, as few or as many as they should be."""
    found = sizes(items, size, wanted)
    least, most = size
    assert sum(found) == items
    if not items:
        assert found == []
        return
    assert max(found) - min(found) <= 1
    assert max(found) <= most
    shards = len(found)
    if min(found) < least:
        # No number of shards keeps both: with one less, some would have too many.
        assert shards == 1 or -(-items // (shards - 1)) > most
    free = max(wanted, 1)
    if shards % free:
        # Not a multiple: more would have too few each.
        following = shards + free - shards % free
        assert items // following < least
    elif shards > free:
        # A multiple, and the smallest.
        assert -(-items // (shards - free)) > most


@given(counts, measures, executors, cuts)
def test_every_item_of_a_list_is_in_one_shard(
    items: int, size: tuple[int, int], wanted: int, how: Cut
) -> None:
    """In its order; neighbours, or by index modulo the number of shards."""
    options = Options(size=size, cut=how)
    shards = [*cut([*range(items)], options, wanted)]
    assert [shard.count for shard in shards] == sizes(items, size, wanted)
    parts = [items_of(shard) for shard in shards]
    assert [len(part) for part in parts] == [shard.count for shard in shards]
    if how is Cut.HASH:
        assert parts == [[*range(k, items, len(parts))] for k in range(len(parts))]
    else:
        assert joined(parts) == [*range(items)]


@given(counts, measures, executors, cuts)
@example(1_000, (1, 10), 3, Cut.CONTIGUOUS)
def test_every_item_of_an_iterator_is_in_one_shard(
    items: int, size: tuple[int, int], wanted: int, how: Cut
) -> None:
    """All but the last round are full, and that one is even."""
    options = Options(size=size, cut=how)
    shards = [*cut(iter(range(items)), options, wanted)]
    parts = [items_of(shard) for shard in shards]
    if how is Cut.HASH:
        assert [shard.count for shard in shards] == sizes(items, size, wanted)
        assert sorted(joined(parts)) == [*range(items)]
        return
    assert joined(parts) == [*range(items)]
    last = [count for part in parts if (count := len(part)) < size[1]]
    assert [len(part) for part in parts] == [size[1]] * (len(parts) - len(last)) + last
    assert not last or max(last) - min(last) <= 1


@given(st.integers(-50, 50), counts, measures, executors)
def test_every_key_of_a_range_is_in_one_shard(
    first: int, items: int, size: tuple[int, int], wanted: int
) -> None:
    """And none of them is stored."""
    source = KeyRange(first, first + items - 1)
    shards = [*cut(source, Options(size=size), wanted)]
    assert all(shard.body is None for shard in shards)
    assert [shard.count for shard in shards] == sizes(items, size, wanted)
    assert joined(map(items_of, shards)) == [*range(first, first + items)]


cells = st.text(alphabet=st.sampled_from('ab",\n\r; \ufeffé'), max_size=5)


@given(
    st.lists(st.tuples(cells, cells), max_size=30), measures, executors, st.booleans()
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_record_of_a_csv_file_is_in_one_shard(
    tmp_path: Path,
    rows: list[tuple[str, str]],
    size: tuple[int, int],
    wanted: int,
    marked: bool,
) -> None:
    """With quotes, and line ends in them, as csv writes them."""
    path = tmp_path / "rows.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([("a", "b\nc"), *rows])
    path.write_bytes(text.getvalue().encode("utf-8-sig" if marked else "utf-8"))
    shards = [*cut(File(path, format="csv"), Options(size=size), wanted)]
    assert [shard.count for shard in shards] == sizes(len(rows), size, wanted)
    assert joined(map(items_of, shards)) == [{"a": a, "b\nc": b} for a, b in rows]


values = st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists)


@given(st.lists(values | st.just(...), max_size=30), measures, executors)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_of_json_is_in_one_shard(
    tmp_path: Path, given_items: list[Any], size: tuple[int, int], wanted: int
) -> None:
    """Blank lines (``...``) are none."""
    path = tmp_path / "rows.jsonl"
    lines = ["  \n" if one is ... else json.dumps(one) + "\n" for one in given_items]
    path.write_text("".join(lines), encoding="utf-8")
    there = [one for one in given_items if one is not ...]
    shards = [*cut(File(path, format="jsonl"), Options(size=size), wanted)]
    assert [shard.count for shard in shards] == sizes(len(there), size, wanted)
    assert joined(map(items_of, shards)) == there


@given(st.lists(st.lists(st.integers(), max_size=20), max_size=6), executors)
def test_layers_are_numbered_without_gaps(layers: list[list[int]], wanted: int) -> None:
    """One without items is none: nobody would close it."""
    assume(layers)
    shards = [*cut(layers, Options(size=(1, 7)), wanted)]
    filled = [layer for layer in layers if layer]
    assert sorted({shard.layer for shard in shards}) == [*range(len(filled))]
    for number, layer in enumerate(filled):
        own = [shard for shard in shards if shard.layer == number]
        assert joined(map(items_of, own)) == layer


@given(st.integers(0, 200), st.integers(1, 12))
def test_shards_are_dealt_evenly(shards: int, workers: int) -> None:
    """All of them, in runs, balanced within one."""
    dealt = assign(shards, range(workers))
    assert joined(dealt.values()) == [*range(shards)]
    held = [len(own) for own in dealt.values()]
    assert max(held) - min(held) <= 1
    # An odd number favours the first, an even number the last.
    assert held == sorted(held, reverse=shards % 2 == 1)


@given(st.integers(0, 200), st.lists(st.integers(0, 11), unique=True, max_size=11))
def test_only_orphans_move(shards: int, dying: list[int]) -> None:
    """Each death spreads what the dead one had, evenly; nobody loses any."""
    held = assign(shards, range(12))
    for dead in dying:
        dealt = moves(held, dead)
        assert sorted(joined(dealt.values())) == held[dead]
        more = [len(own) for own in dealt.values()]
        assert max(more) - min(more) <= 1
        after = reassign(held, dead)
        assert dead not in after
        assert all(set(held[one]) <= set(after[one]) for one in after)
        assert Counter(joined(after.values())) == Counter(range(shards))
        held = after


@given(counts, st.integers(1, 9), cuts, st.booleans())
def test_with_even_placement_each_worker_owns_as_many(
    items: int, workers: int, how: Cut, streamed: bool
) -> None:
    """Of each layer; the shards and their order are what they are otherwise."""
    owners = [f"w{number}" for number in range(workers)]
    data: Iterable[int] = range(items)
    layer = iter(data) if streamed else [*data]
    options = Options(size=(1, 20), cut=how, placement=Placement.EVEN)
    shards = [*cut(layer, options, workers, owners=owners)]
    held = Counter(shard.owner for shard in shards)
    assert set(held) <= set(owners)
    dealt = [held[owner] for owner in owners]
    assert max(dealt) - min(dealt) <= 1
    again = iter(data) if streamed else [*data]
    plain = cut(again, Options(size=(1, 20), cut=how), workers)
    assert [shard.body for shard in shards] == [shard.body for shard in plain]


graphs = st.integers(1, 40).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=80
    ).map(lambda edges: (size, edges))
)


@given(graphs)
def test_layers_of_what_waits(graph: tuple[int, list[tuple[int, int]]]) -> None:
    """Each item just after the last that it waits for; a circle is a real one."""
    size, edges = graph
    before: dict[int, list[int]] = {number: [] for number in range(size)}
    for one, other in edges:
        before[one].append(other)
    try:
        layers = toposort(range(size), key=lambda n: n, after=before.__getitem__)
    except CycleFound as error:
        named = str(error).rpartition(": ")[2].split(" after ")
        circle = [int(name) for name in named if not name.startswith("…")]
        assert circle[0] == circle[-1]
        if len(circle) == len(named):
            assert all(other in before[one] for one, other in pairwise(circle))
        return
    at = {item: number for number, layer in enumerate(layers) for item in layer}
    assert sorted(at) == [*range(size)]
    for item, number in at.items():
        assert number == max((at[one] + 1 for one in before[item]), default=0)
    assert all([*layer] == sorted(layer) for layer in layers)


@pytest.mark.parametrize("how", Cut)
def test_an_item_that_is_no_json_is_named(how: Cut) -> None:
    """By its layer and its place, however it was cut."""
    items: list[Any] = [*range(100)]
    items[77] = object()
    with pytest.raises(
        ItemNotSerializable, match=r"item 77 of layer 1 \(object\) cannot"
    ):
        list(cut([[1], items], Options(size=(1, 9), cut=how), 3))
