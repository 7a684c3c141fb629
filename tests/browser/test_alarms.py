"""The page Alarms in a browser: drawn, alive, narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.browser.axe import hindrances
from tests.browser.screen import Screen, watched
from tests.integration.cli.test_alarms import RINGS
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site

ROW = "#alarms tbody tr"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an app that has alarms, of which one rings."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(RINGS)
    return start(shared_dsn, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Screen]:
    """Give the page, drawn; no script fails."""
    with watched(Screen(browser, site)) as screen:
        screen.open("/alarms")
        screen.until(lambda: len(screen.all(ROW)) == 2, "two rows")
        yield screen


def test_what_rings_stands_first_with_its_reason(page: Screen, site: Site) -> None:
    """As the tables say; a failing target says why."""
    page.until(lambda: page.text("#total-ringing") == "1", "one rings")
    alarms = site.data("/alarms")["rows"]["alarms"]
    assert page.text(f"{ROW} td:nth-child(1)") == "ringing"
    assert alarms[0]["subject"] in page.text(ROW)
    assert alarms[0]["detail"] in page.text(ROW)
    assert page.text(f"{ROW}:nth-child(2) td:nth-child(1)") == "recovered"
    assert "ConnectionError: away" in page.text("#targets tbody")


def test_an_alarm_that_recovers_changes_under_the_eyes(
    page: Screen, shared_dsn: str
) -> None:
    """Without a reload; the number of what rings falls."""
    state = "update pecker_alarms set state = %s, recovered_at = %s where subject = %s"
    with psycopg.connect(shared_dsn) as connection:
        [[now]] = connection.execute("select now()").fetchall()
        connection.execute(state, ["recovered", now, "tick [bold]"])
    try:
        page.until(lambda: page.text("#total-ringing") == "0", "none rings")
        assert "ringing" not in page.text("#alarms tbody")
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute(state, ["ringing", None, "tick [bold]"])


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    page.until(lambda: page.text("#total-ringing") == "1", "all are drawn")
    assert hindrances(page.driver) == []
