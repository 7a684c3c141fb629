"""What was not counted is reckoned, and said to be."""

from __future__ import annotations

from celery_pecker.outbox.model import mode_name
from celery_pecker.outbox.overview import (
    Counted,
    TaskRow,
    by_task,
    drained_in,
    indexes_to_ask,
    totals,
)


def counted(kind: str, *, full: bool = False, task: str = "t", **how: int) -> Counted:
    """Return rows of one task."""
    none = dict.fromkeys(("waiting", "held", "later", "parked", "attempt"), 0)
    return Counted(kind, task, **{**none, **how}, oldest=None, full=full)


def test_a_shallow_table_is_counted() -> None:
    """No statistics are asked for."""
    rows = [counted("ready", waiting=3, held=1), counted("parked", parked=2)]
    assert indexes_to_ask(rows) == set()
    found = totals(rows, {})
    assert (found.depth, found.later, found.parked) == (4, 0, 2)
    assert (found.counted, found.more) == (6, False)


def test_what_is_behind_the_last_that_was_counted_is_reckoned() -> None:
    """It is due as that one is: an index is walked in the order of due times."""
    rows = [
        counted("ready", waiting=10, full=True),
        counted("timed", waiting=4, later=6, full=True),
        counted("runs", waiting=10, full=True),
        counted("parked", parked=10, full=True),
    ]
    estimates = {
        "pecker_outbox_ready": 100,
        "pecker_outbox_later": 1_000,
        "pecker_outbox_runs": 30,
        "pecker_outbox_parked": 5,
    }
    assert indexes_to_ask(rows) == {*estimates}
    found = totals(rows, estimates)
    assert found.depth == 100 + 4 + 30
    assert found.later == 6 + 990
    assert found.parked == 10, "never less than were counted"
    assert (found.counted, found.more) == (40, True)


def test_without_statistics_at_least_what_was_counted_is_told() -> None:
    """A table that was never analyzed."""
    found = totals([counted("ready", waiting=10, full=True)], {})
    assert (found.depth, found.more) == (10, True)


def test_kinds_of_one_task_are_one_row() -> None:
    """Those that wait most first, then those with parked ones."""
    rows = [
        counted("ready", task="a", waiting=1),
        counted("parked", task="a", parked=2, attempt=7),
        counted("timed", task="b", waiting=5),
        counted("parked", task="c", parked=1),
    ]
    found = by_task(rows, {"b": 2.5})
    assert [one.task for one in found] == ["b", "a", "c"]
    assert (found[1].waiting, found[1].parked, found[1].attempt) == (1, 2, 7)
    assert found[0].rate == 2.5


def test_a_mode_of_a_newer_version_has_a_name() -> None:
    """Its row can be shown."""
    assert (mode_name(1), mode_name(9)) == ("until_done", "mode 9")


def task_row(**how: float) -> TaskRow:
    """Return what waits of one task."""
    none: dict[str, float] = dict.fromkeys(
        ("waiting", "held", "later", "parked", "attempt", "rate"), 0
    )
    return TaskRow(task="t", **{"oldest": 1.0, **none, **how})  # type: ignore[arg-type]


def test_a_task_that_stands_still_is_not_hidden_by_a_fast_one() -> None:
    """Ten seconds for all of it, and the slow one needs ten minutes, or for ever."""
    fast = task_row(waiting=400, rate=99.0)
    assert drained_in([fast, task_row(waiting=600, rate=1.0)], 1_000, 100.0) == 600.0
    still = task_row(waiting=600, oldest=61.0)
    assert drained_in([fast, still], 1_000, 100.0) is None
    # It has just come, or a long run of it is under way: nothing says that it stands.
    for other in (
        task_row(waiting=600, oldest=59.0),
        task_row(waiting=599, held=1, oldest=61.0),
    ):
        assert drained_in([fast, other], 1_000, 100.0) == 10.0
    assert drained_in([], 0, 0.0) == 0.0
    assert drained_in([fast], 400, 0.0) is None
