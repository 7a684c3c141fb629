"""A name is done when all its slots in a batch are."""

from __future__ import annotations

from celery_pecker.brokers.publisher.lanes import Dispatch, names_in


def slots(**ids: str) -> list[Dispatch]:
    """Return a batch: each letter is a slot of the name."""
    return [
        Dispatch(name=name, task_id=f"{name}{letter}", header={})
        for name, letters in ids.items()
        for letter in letters
    ]


def test_a_name_with_a_slot_left_over_is_not_done() -> None:
    """An entry that catches up has several."""
    batch = slots(a="12", b="1", c="12")

    assert names_in(batch, {"a1", "a2", "b1", "c2"}) == {"a", "b"}
    assert names_in(batch, set()) == frozenset()
    assert names_in([], {"a1"}) == frozenset()
