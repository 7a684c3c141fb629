"""When a batch is due, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from celery_pecker.batches.gathering import Gathering, Limits, checked
from celery_pecker.kernel.errors import BatchesFull, Misconfigured


def limits(**given: Any) -> Limits:
    """Return limits of three items and two seconds."""
    return Limits(**{"most": 3, "wait": 2.0, "waiting": 5, "calls": 1, **given})


def test_a_batch_is_due_when_it_is_full_or_its_first_item_has_waited() -> None:
    """Later items do not put the call off."""
    gathering: Gathering[str] = Gathering(limits())
    assert gathering.due_in(10.0) is None
    gathering.add("a", 10.0)
    gathering.add("b", 11.5)
    assert gathering.due_in(11.5) == 0.5
    assert gathering.due_in(12.5) == 0.0
    gathering.add("c", 11.6)
    assert gathering.due_in(11.6) == 0.0
    assert gathering.take() == ["a", "b", "c"]
    assert gathering.due_in(11.6) is None


def test_at_the_end_a_batch_is_due_at_once() -> None:
    """What was accepted is not kept waiting by a close."""
    gathering: Gathering[str] = Gathering(limits())
    gathering.add("a", 10.0)
    assert gathering.due_in(10.0, closing=True) == 0.0


def test_a_batch_takes_the_oldest_and_leaves_the_rest() -> None:
    """In the order in which they came."""
    gathering: Gathering[int] = Gathering(limits())
    for number in range(5):
        gathering.add(number, 0.0)
    assert gathering.take() == [0, 1, 2]
    assert gathering.take() == [3, 4]


def test_no_more_wait_than_may() -> None:
    """The one too many is refused and counted, the others stay."""
    gathering: Gathering[int] = Gathering(limits(waiting=2))
    gathering.add(1, 0.0)
    gathering.add(2, 0.0)
    with pytest.raises(BatchesFull, match=r"2 items wait.*waiting=2"):
        gathering.add(3, 0.0)
    assert (gathering.refused, gathering.take()) == (1, [1, 2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("most", 0), ("most", 100_001), ("most", True), ("most", 1.5)),
        *(("wait", -1), ("wait", 61), ("wait", "1"), ("wait", float("nan"))),
        *(("waiting", 0), ("calls", 0), ("calls", 1_001)),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: object) -> None:
    """The message names the argument, its value and what is allowed."""
    with pytest.raises(Misconfigured, match=rf"{name} is .*allowed"):
        limits(**{name: value})


@pytest.mark.parametrize("results", [[1], [1, 2, 3], None, iter([1, 2])])
def test_results_are_as_many_as_items(results: object) -> None:
    """Else nobody could know whose they are."""
    assert checked([1, 2], 2) == [1, 2]
    with pytest.raises(Misconfigured, match="for 2 items; allowed"):
        checked(results, 2)
