"""Items, results and calls as bytes: what goes in comes out, or is refused by name."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.errors import Misconfigured
from celery_sharding.codec import DEFLATED, PLAIN, decode, encode, encode_items
from celery_sharding.errors import ItemNotSerializable

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain.filter(lambda value: "__type__" not in repr(value)))
def test_what_goes_in_comes_out(value: Any) -> None:
    """All that JSON has."""
    assert decode(encode(value)) == value


def test_what_celery_writes_as_json_is_written() -> None:
    """Instants, decimals and ids come back as what they were."""
    rich = [datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.10"), uuid.UUID(int=7)]
    assert decode(encode(rich)) == rich
    assert decode(encode((1, (2, 3)))) == [1, [2, 3]], "tuples come back as lists"


def test_what_is_long_is_compressed() -> None:
    """And what is short is not, as that would make it longer."""
    assert encode(["a"])[:1] == PLAIN
    long = encode(["row of an import"] * 1_000)
    assert long[:1] == DEFLATED
    assert len(long) < 1_000


class Strange:
    """Nothing that JSON has."""


@pytest.mark.parametrize("wrong", [Strange(), {1, 2}, object, {Strange(): 1}])
def test_what_is_no_json_is_refused_with_its_place(wrong: Any) -> None:
    """One bad item among a million is named."""
    items = [*range(5), wrong, 7]
    with pytest.raises(ItemNotSerializable, match=r"^item 105 \("):
        encode_items(items, range(100, 200))
    with pytest.raises(Misconfigured, match="the result cannot be written as JSON"):
        encode(wrong, what="the result")


def test_a_circle_is_refused() -> None:
    """It would be endless."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ItemNotSerializable, match="cannot be written as JSON"):
        encode(circle)
