"""The page Alarms in a browser: drawn, alive, narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By

from celery_pecker.testing import eventually
from tests.browser.axe import hindrances
from tests.integration.cli.test_alarms import RINGS
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site
from tests.integration.flower.test_alarms import APP

NOT_YET = (NoSuchElementException, StaleElementReferenceException)
ROW = "#alarms tbody tr"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an app that has alarms, of which one rings."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(RINGS)
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Any]:
    """Give a browser that has the page open and drawn; no script fails."""
    browser.set_window_size(1400, 1000)
    browser.get(f"{site.url}/alarms")
    until(lambda: text(browser, "#pecker-live") == "Live", "it is live")
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, ROW)) == 2, "two rows")
    yield browser
    severe = [
        line["message"]
        for line in browser.get_log("browser")
        if line["level"] == "SEVERE" and "favicon" not in line["message"]
    ]
    assert not severe


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until the condition is true."""
    return eventually(condition, 30.0, what, ignoring=NOT_YET)


def text(page: Any, css: str) -> str:
    """Return what stands there."""
    return str(page.find_element(By.CSS_SELECTOR, css).text)


def test_what_rings_stands_first_with_its_reason(page: Any, site: Site) -> None:
    """As the tables say; a failing target says why."""
    until(lambda: text(page, "#total-ringing") == "1", "one rings")
    alarms = site.data("/alarms")["alarms"]
    assert text(page, f"{ROW} td:nth-child(1)") == "ringing"
    assert alarms[0]["subject"] in text(page, ROW)
    assert alarms[0]["detail"] in text(page, ROW)
    assert text(page, f"{ROW}:nth-child(2) td:nth-child(1)") == "recovered"
    assert "ConnectionError: away" in text(page, "#targets tbody")


def test_an_alarm_that_recovers_changes_under_the_eyes(
    page: Any, shared_dsn: str
) -> None:
    """Without a reload; the number of what rings falls."""
    state = "update pecker_alarms set state = %s, recovered_at = %s where subject = %s"
    with psycopg.connect(shared_dsn) as connection:
        [[now]] = connection.execute("select now()").fetchall()
        connection.execute(state, ["recovered", now, "tick [bold]"])
    try:
        until(lambda: text(page, "#total-ringing") == "0", "none rings")
        assert "ringing" not in text(page, "#alarms tbody")
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute(state, ["ringing", None, "tick [bold]"])


def test_nothing_hinders_people(page: Any) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    until(lambda: text(page, "#total-ringing") == "1", "all are drawn")
    assert hindrances(page) == []
