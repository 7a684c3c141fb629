"""How long messages of a stored schedule wait is declared with it."""

from __future__ import annotations

import pytest

from tests.integration.stored_schedules.conftest import Desk


@pytest.mark.parametrize(
    ("countdown", "known"),
    [
        (90, 90_000_000),
        (0.5, 500_000),
        (10**400, 31_536_000_000_000),
        ("90", None),
        (None, None),
    ],
)
def test_a_countdown_is_declared_under_either_name(
    desk: Desk, countdown: object, known: int | None
) -> None:
    """Workers report of its messages after that; other options say nothing of it."""
    declared = "select name, countdown_us from pecker_declarations where name = %s"
    desk.set(options={"countdown": countdown})
    assert desk.sql(declared, "report") == [("report", known)]
    desk.schedules.rename("report", "other")
    assert desk.sql(declared, "other") == [("other", known)]
    desk.set("other", options={})
    assert desk.sql(declared, "other") == [("other", None)]
