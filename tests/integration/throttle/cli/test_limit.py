"""``throttle limit`` on a real Redis."""

from __future__ import annotations

import pytest

from tests.command_line import Line
from tests.integration.throttle.crew import Crew


def notes(line: Line) -> list[str]:
    """Return what is noted of the database `main`."""
    told = line.json("top", "--once")["databases"]
    found: list[str] = next(one["notes"] for one in told if one["name"] == "main")
    return found


def test_a_limit_is_set_for_a_while_and_ended(line: Line, crew: Crew) -> None:
    """All who look see who set it and until when."""
    assert crew.workers
    said = line("limit", "main", "3000", "--for", "600", "--who", "bo")
    assert (said.exit_code, said.stdout[:24]) == (0, "main: 3000 operations/s ")
    [note] = [one for one in notes(line) if "set by" in one]
    assert note.startswith("the limit is lowered to 60%: 3000 operations/s until 20")
    assert note.endswith(" UTC, set by bo")
    line("limit", "main", "10000", "--who", "bo")
    [note] = [one for one in notes(line) if "set by" in one]
    assert note.startswith("200% of the limit: 10000 operations/s")
    assert line("limit", "main", "--end").exit_code == 0
    assert not [one for one in notes(line) if "set by" in one]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("main",), "either OPERATIONS or --end"),
        (("main", "5", "--end"), "either OPERATIONS or --end"),
        (("main", "0"), "not in the range"),
        (("main", "nan"), "above 0"),
        (("main", "1e9"), "at most 5e+06"),
        (("main", "5", "--for", "1e9"), "not in the range"),
        (("misspelt", "5"), "no limit"),
    ],
)
def test_what_cannot_be_is_refused(
    line: Line, words: tuple[str, ...], said: str
) -> None:
    """With what is allowed."""
    result = line("limit", *words)
    assert result.exit_code in (1, 2)
    assert said in result.output
