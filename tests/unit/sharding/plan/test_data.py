"""What a job is given is told apart, or refused with the reason."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from celery_sharding import codec, sources
from celery_sharding.errors import ItemNotSerializable, Misconfigured
from celery_sharding.layers import Layers, flat
from celery_sharding.plan import from_stored, layers_of, stored
from celery_sharding.sources import (
    File,
    KeyRange,
    Query,
    Sizes,
    Source,
    from_json,
    read,
    refer,
    register,
    to_json,
)


def told(given: Any) -> list[Any]:
    """Return the layers, read."""
    return [
        repr(layer) if isinstance(layer, Source) else [*layer]
        for layer in layers_of(given)
    ]


GIVEN: dict[str, tuple[Any, list[Any]]] = {
    "no items": ([], [[]]),
    "a list": ([1, 2], [[1, 2]]),
    "layers": ([[1], [2, 3]], [[1], [2, 3]]),
    "an empty layer": ([[1], []], [[1], []]),
    "tuples are items": ([(1, 2), (3, 4)], [[(1, 2), (3, 4)]]),
    "dicts are items": ([{"a": 1}], [[{"a": 1}]]),
    "texts are items": (["ab", "c"], [["ab", "c"]]),
    "not all are lists": ([[1], 2], [[[1], 2]]),
    "a tuple": (([1], [2]), [[[1], [2]]]),
    "Layers": (Layers([[1], [[2]]]), [[1], [[2]]]),
    "flat": (flat([[1], [2]]), [[[1], [2]]]),
    "a dict's values": ({"a": [1]}.values(), [[[1]]]),
    "Layers like a table": (Layers([[1, "a"], [2, "b"]]), [[1, "a"], [2, "b"]]),
    "a range": (range(3), [[0, 1, 2]]),
    "a source": (KeyRange(1, 9), ["KeyRange(1, 9)"]),
    "sources": ([KeyRange(1, 2), KeyRange(3, 4)], ["KeyRange(1, 2)", "KeyRange(3, 4)"]),
    "a source after items": ([["a"], KeyRange(1, 2)], [["a"], "KeyRange(1, 2)"]),
}
cases = pytest.mark.parametrize(("given", "layers"), GIVEN.values(), ids=[*GIVEN])


@cases
def test_layers_are_told(given: Any, layers: list[Any]) -> None:
    """By the outermost shape only."""
    assert told(given) == layers


@cases
def test_what_is_stored_means_the_same(given: Any, layers: list[Any]) -> None:
    """JSON has no tuples: without it, rows would come back as layers."""
    again = from_stored(codec.decode(codec.encode(stored(given))))
    assert told(again) == [
        layer if isinstance(layer, str) else codec.decode(codec.encode(layer))
        for layer in layers
    ]


def test_an_iterator_is_one_layer_that_is_read_once() -> None:
    """Whatever it gives: to know that all are lists, it would have to be read."""
    assert told(iter([[1], [2]])) == [[[1], [2]]]
    assert told(n for n in range(3)) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "None was passed or returned by its PreProcess"),
        ("abc", "str is not what a job has items in; allowed are a list"),
        (b"abc", "bytes is not"),
        ({"a": 1}, "dict is not"),
        (7, "int is not"),
        (True, "bool is not"),
        (object(), "object is not"),
        ({1, 2}, "a set has no order that lasts: sort it"),
    ],
)
def test_what_is_no_items_is_refused(given: Any, said: str) -> None:
    """A text would be cut into letters."""
    with pytest.raises(Misconfigured, match=said):
        told(given)


@pytest.mark.parametrize(
    "rows",
    [
        [[1, "a"], [2, "b"]],
        [["a", None], ["b", "c"]],
        [[True, 1], [False, 2]],
        [[1, 2], [3, "x"], [4, 5]],
    ],
)
def test_rows_of_a_table_are_refused(rows: list[Any]) -> None:
    """Each would be a layer of cells; the error says how to name what is meant."""
    with pytest.raises(Misconfigured, match=r"look like rows .* layers\.flat\(rows\)"):
        told(rows)
    assert told(flat(rows)) == [rows]
    assert told(from_stored(codec.decode(codec.encode(stored(Layers(rows)))))) == rows


@pytest.mark.parametrize(
    ("rows", "logged"),
    [
        ([[1, 2], [3, 4], [5, 6]], True),
        ([[1, 2], [3, 4]], False),
        ([[1], [2], [3]], False),
        ([[1, 2], [3, 4], [5]], False),
    ],
)
def test_what_may_be_a_table_is_named_in_the_log(
    rows: list[Any], logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is layers all the same: there are such."""
    assert told(rows) == rows
    assert ("lists of 2 cells each were taken for layers" in caplog.text) == logged


SOURCES = [
    KeyRange(-3, 8),
    File("/a/b", format="csv", encoding="latin-1", delimiter=";"),
    Query("select 1 as a", {"b": [1]}, key="a", dsn="mine", timeout=3.0),
]


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_a_source_travels_as_json(source: Source) -> None:
    """Written by us alone: by itself it becomes none, among items or as a value."""
    again = from_json(codec.decode(codec.encode(to_json(source))))
    assert type(again) is type(source)
    assert vars(again) == vars(source)
    with pytest.raises(ItemNotSerializable, match=type(source).__name__):
        codec.encode([source])


class Letters(Source):
    """A source of a user's own, that cannot count."""

    kind: ClassVar[str] = "letters"

    def __init__(self, text: str) -> None:
        self.text = text

    def as_json(self) -> dict[str, Any]:
        """Return the text."""
        return {"text": self.text}

    def parts(self, sizes: Sizes, conf: Any) -> Any:
        """Give pieces of it."""
        del conf
        for start in range(0, len(self.text), sizes.most):
            yield {"start": start, "end": start + sizes.most}, None

    def read(self, part: Any, conf: Any) -> Any:
        """Give letters."""
        del conf
        return iter(self.text[part["start"] : part["end"]])


def test_a_source_of_ones_own_is_known_once_it_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what is not known is named."""
    monkeypatch.setattr(sources, "_KINDS", dict(sources._KINDS))
    reference = refer(Letters("abcdef"), {"start": 1, "end": 3})
    with pytest.raises(
        Misconfigured, match="no source of kind 'letters', only file, keys, query;"
    ):
        read(reference, {})
    register(Letters)
    register(Letters)
    assert [*read(codec.decode(codec.encode(reference)), {})] == ["b", "c"]


def test_a_kind_is_of_one_class() -> None:
    """Two that share a name would read each other's parts."""

    class Mine(KeyRange):
        """It forgot to set its kind."""

    with pytest.raises(Misconfigured, match="kind 'keys' are KeyRange already"):
        register(Mine)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: KeyRange(3, 1), r"last \(1\) is before first \(3\)"),
        (lambda: KeyRange("1", 3), "first must be a whole number, not '1'"),  # type: ignore[arg-type]
        (lambda: File("a", format="xml"), "format must be one of lines, jsonl, csv"),  # type: ignore[arg-type]
        (lambda: File("a", encoding="utf-16"), "ASCII, .* not 'utf-16'"),
        (lambda: File("a", encoding="klingon"), "latin-1, not 'klingon'"),
        (lambda: File("a", delimiter=",,"), "delimiter must be one character"),
        (lambda: Query(" ", key="a"), "statement must be a text"),
        (lambda: Query("select 1", key="a", timeout=0), "timeout must be above 0"),
    ],
)
def test_a_source_that_cannot_be_is_refused_when_it_is_made(
    make: Any, said: str
) -> None:
    """Not when a worker reads the first part of it."""
    with pytest.raises(Misconfigured, match=said):
        make()
