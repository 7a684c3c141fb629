"""The page Observers in a browser: drawn, alive, at hand."""

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
from tests.browser.axe import hindrances, phone
from tests.integration.cli.observer_rows import statuses, write_observers
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site
from tests.integration.flower.test_observers import APP
from tests.integration.flower.test_observers import UNSENT as NOT_SENT

NOT_YET = (NoSuchElementException, StaleElementReferenceException)
UNSENT = By.ID, "unsent"
ROWS = "#observers tbody tr"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over observers."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site, shared_dsn: str) -> Iterator[Any]:
    """Give a browser that has the page open; no script fails."""
    write_observers(shared_dsn)
    browser.set_window_size(1400, 1000)
    browser.get(f"{site.url}/observers")
    live = "#pecker-live"
    until(lambda: browser.find_element(By.CSS_SELECTOR, live).text == "Live", "it is")
    yield browser
    severe = [
        line["message"]
        for line in browser.get_log("browser")
        if line["level"] == "SEVERE" and "favicon" not in line["message"]
    ]
    assert not severe


def until(condition: Callable[[], Any], said: str) -> Any:
    """Wait until the condition is true."""
    return eventually(condition, 30.0, said, ignoring=NOT_YET)


def text(page: Any, css: str) -> str:
    """Return what stands there."""
    return str(page.find_element(By.CSS_SELECTOR, css).text)


def rows(page: Any) -> int:
    """Return how many observers are listed."""
    return len(page.find_elements(By.CSS_SELECTOR, ROWS))


def test_hosts_are_bars_of_their_capacity(page: Any) -> None:
    """As long as what they hold; what needs a look stands first."""
    until(lambda: text(page, "#total-parked") == "1", "one is parked")
    assert text(page, "#total-free") == "1"
    parts = page.execute_script(
        "return [...document.querySelectorAll('.pecker-full')].map(full =>"
        " Math.round(100 * full.offsetWidth / full.parentNode.clientWidth))"
    )
    assert parts == [80, 0, 0]
    assert "ConnectionError: <b>no</b> route" in text(page, ROWS)


def test_one_is_searched_and_its_life_is_drawn(page: Any) -> None:
    """The address keeps both."""
    page.find_element(By.ID, "search").send_keys("bad")
    until(lambda: rows(page) == 1, "one is found")
    page.find_element(By.CSS_SELECTOR, f"{ROWS} .btn-link").click()
    parts = "#life-strip rect"
    until(lambda: len(page.find_elements(By.CSS_SELECTOR, parts)) == 4, "its life")
    assert page.current_url.endswith("?search=bad&name=bad")
    events = page.find_elements(By.CSS_SELECTOR, "#events tbody tr td:nth-child(2)")
    assert [one.text for one in events] == ["parked", "failed", "started", "created"]
    page.find_element(By.ID, "close").click()
    until(lambda: not page.find_element(By.ID, "life").is_displayed(), "it is closed")


def test_a_parked_one_is_restarted_and_another_stopped(
    page: Any, shared_dsn: str
) -> None:
    """What cannot be taken back is pressed twice."""
    page.find_element(By.CSS_SELECTOR, "[data-name=bad] [data-act=restart]").click()
    until(lambda: text(page, "#total-parked") == "0", "none is parked")
    stop = "[data-name=wait] [data-act=stop]"
    page.find_element(By.CSS_SELECTOR, stop).click()
    until(lambda: text(page, stop) == "Really?", "it asks")
    assert statuses(shared_dsn)["wait"] == "created"
    page.find_element(By.CSS_SELECTOR, stop).click()
    until(lambda: statuses(shared_dsn)["wait"] == "deleted", "it is deleted")
    until(lambda: rows(page) == 4, "it is gone")


def test_signatures_that_could_not_be_sent_are_said(page: Any, shared_dsn: str) -> None:
    """Why, above the hosts; nothing is said where all were sent."""
    assert not page.find_element(*UNSENT).is_displayed()
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(NOT_SENT)
    try:
        until(lambda: page.find_element(*UNSENT).is_displayed(), "it is shown")
        assert page.find_element(*UNSENT).text.endswith(": NotRegistered: tell")
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute("delete from pecker_observer_notices")


def test_on_a_phone_an_error_stands_under_its_observer(page: Any) -> None:
    """So it does in the list of events; a column of its own would be too narrow."""
    until(lambda: rows(page) == 5, "all are drawn")
    page.find_element(By.CSS_SELECTOR, "[data-name=bad] .btn-link").click()
    until(lambda: page.find_elements(By.CSS_SELECTOR, "#events .pecker-why"), "events")
    whys = page.find_elements(
        By.CSS_SELECTOR, "[data-name=bad] .pecker-why, #events tr:nth-child(2) small"
    )
    assert [one.is_displayed() for one in whys] == [False, False]
    with phone(page):
        until(lambda: all(one.is_displayed() for one in whys), "both are shown")
        assert {one.text for one in whys} == {"ConnectionError: <b>no</b> route"}


def test_nothing_hinders_people(page: Any) -> None:
    """As axe-core sees it: light, dark, on a phone; the life of one too."""
    until(lambda: rows(page) == 5, "all are drawn")
    page.find_element(By.CSS_SELECTOR, f"{ROWS} .btn-link").click()
    until(lambda: page.find_elements(By.CSS_SELECTOR, "#life-strip rect"), "its life")
    assert hindrances(page) == []
