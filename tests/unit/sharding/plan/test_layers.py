"""Items that wait for one another become layers, or an error that says who does."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from celery_sharding.errors import CycleFound, DuplicateKey, Misconfigured
from celery_sharding.layers import Layers, flat, toposort

PLACES = [
    {"id": "Bern", "in": "CH"},
    {"id": "CH", "in": "Europe"},
    {"id": "Europe", "in": None},
    {"id": "Basel", "in": "CH"},
    {"id": "Atlantis", "in": "nowhere"},
]


def ids(layers: Layers) -> list[list[Any]]:
    """Return the keys of each layer."""
    return [[item["id"] for item in layer] for layer in layers]


def test_each_item_comes_after_what_it_waits_for() -> None:
    """As early as it can, in the order in which they were given."""
    layers = toposort(PLACES, key="id", after="in")
    assert ids(layers) == [["Europe", "Atlantis"], ["CH"], ["Bern", "Basel"]]


def test_a_key_that_no_item_has_is_there_already_unless_strict() -> None:
    """An import need not bring what the table has."""
    with pytest.raises(
        Misconfigured, match=r"item 4 \('Atlantis'\) waits for 'nowhere'"
    ):
        toposort(PLACES, key="id", after="in", strict=True)


@pytest.mark.parametrize(
    "after",
    [[0, 1], (0, 1), {0, 1}, frozenset({0, 1}), {0: 1, 1: 1}.keys(), [0, 1, 1, 0]],
    ids=repr,
)
def test_several_keys_may_be_told_in_any_form(after: Any) -> None:
    """And one of them twice."""
    items = [(2, after), (1, 0), (0, None)]
    layers = toposort(items, key=0, after=1)
    assert [[item[0] for item in layer] for layer in layers] == [[0], [1], [2]]
    told = toposort(items, key=lambda item: item[0], after=lambda item: item[1])
    assert told == layers


def test_an_iterator_of_keys_is_read_once() -> None:
    """A generator is what a function of an item easily gives."""
    layers = toposort([1, 2, 3], key=lambda n: n, after=lambda n: iter(range(n)))
    assert layers == Layers([[1], [2], [3]])


def test_tuples_are_keys_where_keys_are_tuples() -> None:
    """A composite key is one key."""
    items = [
        {"id": ("CH", "BS"), "in": ("CH", "")},
        {"id": ("CH", ""), "in": None},
    ]
    assert ids(toposort(items, key="id", after="in")) == [
        [("CH", "")],
        [("CH", "BS")],
    ]


def test_attributes_are_fields_too() -> None:
    """Rows of an ORM are no dicts."""

    @dataclass
    class Row:
        number: int
        parent: int | None

    child, parent = Row(2, 1), Row(1, None)
    layers = toposort([child, parent], key="number", after="parent")
    assert layers == Layers([[parent], [child]])


def test_a_cycle_is_named() -> None:
    """And not what only waits for it."""
    items = [("d", "c"), ("a", "c"), ("b", "a"), ("c", "b"), ("e", None)]
    with pytest.raises(CycleFound) as caught:
        toposort(items, key=0, after=1)
    said = str(caught.value)
    assert said.endswith("another: 'c' after 'b' after 'a' after 'c'")
    with pytest.raises(CycleFound, match="another: 1 after 1"):
        toposort([{"id": 1, "in": 1}], key="id", after="in")


def test_of_a_long_cycle_the_beginning_is_shown() -> None:
    """An error is to be read."""
    items = [(n, (n + 1) % 100) for n in range(100)]
    with pytest.raises(CycleFound, match=r"after 11 after … \(88 more\) after 0$"):
        toposort(items, key=0, after=1)


def test_two_items_of_one_key_are_named_by_their_places() -> None:
    """A key of a thousand says nothing about which rows to look at."""
    with pytest.raises(DuplicateKey, match="items 1 and 5 have the same key, 'CH'"):
        toposort([*PLACES, {"id": "CH", "in": None}], key="id", after="in")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"in": None}, r"key='id': item 0 \(dict\) has no such field"),
        ({"id": 1}, r"after='in': item 0 \(dict\) has no such field"),
        ({"id": [1], "in": None}, "the key of item 0 cannot be one"),
        ({"id": 1, "in": [[2]]}, "item 0 waits for what cannot be a key"),
        (1, r"key='id': item 0 \(int\) has no such field"),
    ],
)
def test_what_has_no_key_is_refused(item: Any, said: str) -> None:
    """The item is named by its place."""
    with pytest.raises(Misconfigured, match=said):
        toposort([item], key="id", after="in")


def test_an_error_of_ones_own_function_is_seen_as_it_is() -> None:
    """It is not about a field."""
    with pytest.raises(KeyError, match="mine"):
        toposort([{}], key=lambda item: item["mine"], after="in")


def test_rows_of_a_table_are_one_layer() -> None:
    """A list of lists would be layers."""
    layers = flat([[1, 2], [3, 4]])
    assert len(layers) == 1
    assert [*layers[0]] == [[1, 2], [3, 4]]
    assert layers[:1] == layers
    assert repr(Layers([[1], [2, 3]])) == "Layers(1, 2 items)"


def test_nothing_has_no_layers() -> None:
    """And is no error."""
    assert len(toposort([], key="id", after="in")) == 0


class Pair(NamedTuple):
    """A key of two parts."""

    first: int
    second: int


@pytest.mark.parametrize(
    "after",
    [
        range(2),
        deque([0, 1]),
        {0: "a", 1: "b"},
        {1: 0, 2: 1}.values(),
        array("q", [0, 1]),
    ],
    ids=["range", "deque", "dict", "values", "array"],
)
def test_whatever_gives_keys_names_several(after: object) -> None:
    """Taken for one key, it would be that of no item, and nothing would wait."""
    items = [{"id": 2, "in": after}, {"id": 0, "in": None}, {"id": 1, "in": 0}]
    layers = toposort(items, key="id", after="in")
    assert ids(layers) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("first", "named"),
    [("ab", "ab"), (Pair(1, 2), (1, 2)), (b"ab", b"ab")],
    ids=["text", "tuple", "bytes"],
)
def test_what_the_keys_themselves_are_names_one(first: object, named: object) -> None:
    """A text, or a tuple where keys are tuples."""
    items = [("second", named), (first, None)]
    layers = toposort(items, key=0, after=1)
    assert [[key for key, _ in layer] for layer in layers] == [[first], ["second"]]
