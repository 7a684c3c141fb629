"""Shards as lines of letters."""

from __future__ import annotations

from celery_sharding.ledger.rows import GRADES, LETTERS, Line, Part, grid_of
from celery_sharding.model import Code


def test_each_code_has_a_letter() -> None:
    """And each letter a code of its own."""
    assert {*GRADES} == {*Code}
    assert [*LETTERS] == sorted(LETTERS)


def test_parts_that_follow_each_other_are_one_line() -> None:
    """Of another layer, or behind a gap, another begins."""
    parts = [
        Part(0, 0, "aa"),
        Part(0, 2, "ab"),
        Part(0, 5, "c"),
        Part(1, 6, "de"),
    ]
    grid = grid_of(parts)
    assert grid.lines == (Line(0, 0, "aaab"), Line(0, 5, "c"), Line(1, 6, "de"))
    assert grid.per == 1


def test_a_part_with_gaps_comes_with_its_numbers() -> None:
    """Neighbours in it are joined again."""
    grid = grid_of([Part(0, 3, "aab", [3, 4, 9])])
    assert grid.lines == (Line(0, 3, "aa"), Line(0, 9, "b"))


def test_a_grid_of_very_many_shards_shows_the_worst_of_neighbours() -> None:
    """Its size is bounded whatever the job's; shards are counted all the same."""
    grid = grid_of([Part(0, 0, "aaaaiaaaaa"), Part(1, 10, "bb")], most=4)
    assert grid.per == 3
    assert grid.lines == (Line(0, 0, "aiaa"), Line(1, 10, "b"))
    assert grid.counts == {Code.SUCCEEDED: 9, Code.FAILED: 1, Code.WAITING: 2}


def test_neighbours_alike_are_told_once() -> None:
    """With how many they are."""
    line = Line(0, 0, "aaaebb")
    assert line.compact == "a3eb2"
    assert [*line.runs()] == [
        (Code.SUCCEEDED, 3),
        (Code.RUNNING, 1),
        (Code.WAITING, 2),
    ]


def test_no_shards_are_no_lines() -> None:
    """And nothing is shared."""
    assert grid_of([]) == (1, (), {})
