"""Sources in a call stand beside its arguments, and no data in these is ever one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_sharding import codec
from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK as LAYERS
from celery_sharding.layers import Layers
from celery_sharding.plan.arguments import NAMED, check, join, split
from celery_sharding.plan.data import layers_of, stored
from celery_sharding.sources import MARK, File, KeyRange, Source

KEYS = KeyRange(1, 9)
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], int]] = {
    "first": ((KEYS, 2), {}, 1),
    "behind a value that a chain puts first": ((2, KEYS), {}, 1),
    "by keyword": ((1,), {"keys": KEYS}, 1),
    "layers": (([KEYS, KeyRange(3, 4)],), {}, 1),
    "a layer beside items": (([[1, 2], KEYS],), {}, 1),
    "two": ((KEYS, KeyRange(1, 2)), {"keys": KEYS}, 3),
    "none": (([1], {"a": 1}), {"b": None}, 0),
}
forged = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", MARK, LAYERS, NAMED, "first", "last", "path"]),
            inner | st.sampled_from(["keys", "file", "query"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)
"""JSON of a stranger, who knows all of our marks."""


@pytest.mark.parametrize("case", CALLS)
def test_a_call_is_split_and_joined(case: str) -> None:
    """What goes through JSON in between has no Source in it."""
    args, kwargs, count = CALLS[case]
    plain, named, apart = codec.decode(codec.encode(split(args, kwargs)))
    assert len(apart) == count
    joined = join(plain, named, apart)
    check(*joined)
    assert repr(joined) == repr((args, kwargs))
    assert repr(join([0, *plain], named, apart)[0][1:]) == repr(args)


def test_a_source_that_was_lost_is_named() -> None:
    """A job of something else would be worse."""
    args, kwargs, apart = split((KEYS,), {})
    with pytest.raises(Misconfigured, match=r"KeyRange\(1, 9\) stood .* is lost"):
        check(args, kwargs)
    for place in (-2, 0, "keys"):
        with pytest.raises(Misconfigured, match="has a Source for argument"):
            join(args, kwargs, [[place, apart[0][1]]])


@given(forged)
def test_no_data_is_a_source(data: Any) -> None:
    """Whatever it looks like, and however it is wrapped."""
    for value in (data, [data], [[data]], {LAYERS: data}, (data,), Layers([[data]])):
        assert split((value,), {"value": value})[2] == []
        try:
            layers = [*layers_of(value)]
        except Misconfigured:
            continue
        assert not any(isinstance(one, Source) for one in layers)


def test_items_are_stored_as_items() -> None:
    """What stands in a layer is an item, whatever it looks like."""
    told = stored([[stored(File("/etc/hostname"))]])
    ((layer,),) = [codec.decode(codec.encode(told))[LAYERS]]
    assert layer == [stored(File("/etc/hostname"))]
