"""Rows of `send_many`: what they may be, how they are shown, how they are parted."""

from __future__ import annotations

from typing import Any

import pytest
from celery.utils.saferepr import saferepr
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import writer
from celery_pecker.outbox.bulk import MOST_ROWS, build, checked, plain, row_of
from celery_pecker.outbox.model import Entry
from tests.unit.outbox.test_call_refusals import MESSAGE

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    st.lists(values).map(tuple) | st.dictionaries(st.text(), values),
    st.integers(5, 2_000),
)
def test_plain_arguments_are_shown_as_celery_shows_them(value: Any, limit: int) -> None:
    """By `repr`, which costs a tenth; what it would show otherwise is not plain."""
    if plain(value) and len(repr(value)) < limit:
        assert repr(value) == saferepr(value, limit, maxlevels=3)


def test_most_arguments_are_plain() -> None:
    """Else nothing would be gained."""
    assert plain((1, "order 5", None, True))
    assert plain({"order": 5, "note": "a-b"})
    assert plain(())
    assert plain({})
    assert not plain(("it's",))
    assert not plain(([1],))


def test_a_row_is_a_tuple_a_list_or_a_dict() -> None:
    """Of arguments, or of keyword arguments."""
    assert row_of((1, 2), 1) == ((1, 2), {})
    assert row_of([1], 1) == ((1,), {})
    assert row_of({"a": 1}, 1) == ((), {"a": 1})
    for wrong in (1, "text", {1, 2}, None):
        with pytest.raises(
            NotRecorded, match=r"row 7 is .*allowed are a tuple or list"
        ):
            row_of(wrong, 7)


def test_what_cannot_be_repeated_is_refused() -> None:
    """Before anything is built."""
    with pytest.raises(NotRecorded, match=r"task is 'proj.note'; allowed is a task"):
        checked("proj.note", {})
    endless = iter(lambda: (), None)
    with pytest.raises(NotRecorded, match=f"more than {MOST_ROWS}"):
        build(None, endless, lambda _: ([], None), 1_000)


def parts(*sizes: int) -> list[int]:
    """Return how many entries of these sizes each statement has."""
    entries = [Entry(MESSAGE._replace(body=b"x" * size)) for size in sizes]
    return [len(some) for some in writer.batches(entries)]


def test_statements_are_bounded_by_rows_and_by_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A larger message goes alone; none is left out."""
    monkeypatch.setattr(writer, "BATCH_BYTES", 100)
    monkeypatch.setattr(writer, "BATCH", 4)
    assert parts(*[1] * 9) == [4, 4, 1]
    assert parts(60, 40, 1) == [2, 1]
    assert parts(500, 1, 500, 500) == [1, 1, 1, 1]
    assert parts(1) == [1]
