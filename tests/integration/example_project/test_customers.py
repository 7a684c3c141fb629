"""Customers whose schedules are theirs by one commit, and what the report finds.

The act itself is played by `make demo`, which `make check` runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from example_project.customers.play import Seen
from example_project.customers.story import failures, show

SEEN = Seen(added=0.6, left=0, changed=0.7, rang=1.6, recovered=0.5, rings=1)


def test_the_report_says_what_each_edit_took_and_how_often_it_rang() -> None:
    """In five lines."""
    console = Console(record=True, width=200)
    show(console, SEEN)
    text = console.export_text()
    assert "first reminder 0.6 s later" in text
    assert "0 rows and reminders of it" in text
    assert "1 call by two schedulers" in text
    assert failures(SEEN) == []
    slow = replace(SEEN, added=100.0, changed=100.0, rang=100.0, recovered=100.0)
    assert failures(slow) == []  # how long it takes is the machine's affair


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"left": 2}, "2 are left of what was rolled back"),
        ({"rings": 2}, "the alarm rang 2 times"),
        ({"rings": 0}, "the alarm rang 0 times"),
    ],
)
def test_what_should_not_be_is_a_failure(wrong: dict[str, float], says: str) -> None:
    """The exit code is 1 then."""
    assert failures(replace(SEEN, **wrong)) == [f"customers: {says}"]  # type: ignore[arg-type]  # floats and ints
