"""The rush hour: how long it is waited for, and what its report says is lacking.

The act itself is played by `make demo`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import psycopg
import pytest

from example_project.rush import play
from example_project.rush.play import Act
from example_project.rush.story import failures
from example_project.store import statements

SEEN = Act(
    gate=True,
    limit=400.0,
    told=4,
    missing=(),
    twice=0,
    lasted=2.0,
    sights=(),
    visits=(),
)


def test_what_grows_is_waited_for_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each reminder more is worth another wait; what stands still is given up."""
    monkeypatch.setattr(play, "LOST_AFTER", 0.5)
    counts = itertools.count()
    play._await_all(lambda: next(counts) // 4, 10)  # four looks for each
    assert next(counts) >= 40
    asked = itertools.count()
    play._await_all(lambda: min(next(asked), 3), 10)
    assert next(asked) > 4


def test_reminders_that_lack_are_named(empty_dsn: str) -> None:
    """By the numbers of their meetings; the exit code is 1 then."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(statements()["rush_schema"].encode())
        for meeting in (0, 2):
            said = statements()["record_reminder"].encode()
            connection.execute(said, {"meeting": meeting})
        missing = play._missing(connection, 4)
    assert missing == [1, 3]
    assert failures([SEEN], 4) == []
    lacking = replace(SEEN, told=2, missing=missing)
    assert failures([SEEN, lacking], 4) == [
        "rush hour: 2 of 4 meetings were not told: 1, 3"
    ]
