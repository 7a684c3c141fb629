"""The page Outbox in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By

from celery_pecker.testing import eventually
from tests.browser.axe import hindrances, phone
from tests.integration.flower.outbox_rows import (
    ANYBODY,
    APP,
    STRANGE,
    states,
    write_outbox,
)
from tests.integration.flower.site import Site

NOT_YET = (NoSuchElementException, StaleElementReferenceException)


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an outbox."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site, shared_dsn: str) -> Iterator[Any]:
    """Give a browser that has the page open; no script fails."""
    write_outbox(shared_dsn, parked=2)
    browser.set_window_size(1400, 1000)
    browser.get(f"{site.url}/outbox")
    live = "#pecker-live"
    until(lambda: browser.find_element(By.CSS_SELECTOR, live).text == "Live", "it is")
    yield browser
    severe = [
        line["message"]
        for line in browser.get_log("browser")
        if line["level"] == "SEVERE" and "favicon" not in line["message"]
    ]
    assert not severe
    assert not browser.execute_script("return window.hacked")


def until(condition: Callable[[], Any], said: str) -> Any:
    """Wait until the condition is true."""
    return eventually(condition, 30.0, said, ignoring=NOT_YET)


def text(page: Any, css: str) -> str:
    """Return what stands there."""
    return str(page.find_element(By.CSS_SELECTOR, css).text)


def test_depth_and_time_to_drain_stand_first(page: Any) -> None:
    """An overload looks harmless until the queue is a year long."""
    until(lambda: text(page, "#total-depth") == "3", "three are due")
    assert text(page, "#total-drain") == "never"
    assert text(page, "#sub-relays") == "no relay runs"
    names = [one.text for one in page.find_elements(By.CSS_SELECTOR, "#tasks button")]
    assert {*names} == {"proj.bill", "proj.remind", STRANGE}


def test_a_task_is_chosen_and_the_address_keeps_it(page: Any) -> None:
    """Its messages alone are shown, until all are asked for."""
    page.find_element(By.XPATH, "//button[text()='proj.bill']").click()
    rows = "#messages tbody tr"
    until(lambda: len(page.find_elements(By.CSS_SELECTOR, rows)) == 3, "three rows")
    assert page.current_url.endswith("?task=proj.bill")
    page.find_element(By.ID, "all-tasks").click()
    until(lambda: len(page.find_elements(By.CSS_SELECTOR, rows)) == 6, "all rows")


def test_a_parked_message_is_retried_and_another_dropped(
    page: Any, shared_dsn: str
) -> None:
    """What cannot be taken back is pressed twice."""
    page.find_element(By.ID, "parked").click()
    rows = "#messages tbody tr"
    until(lambda: len(page.find_elements(By.CSS_SELECTOR, rows)) == 2, "two parked")
    assert "the queue <i>eu</i> is unknown" in text(page, rows)
    page.find_element(By.CSS_SELECTOR, f"{rows} [data-act=retry]").click()
    until(lambda: len(page.find_elements(By.CSS_SELECTOR, rows)) == 1, "one is retried")
    drop = f"{rows} [data-act=drop]"
    page.find_element(By.CSS_SELECTOR, drop).click()
    until(lambda: text(page, drop) == "Really?", "it asks")
    assert states(shared_dsn)[STRANGE] == 2
    page.find_element(By.CSS_SELECTOR, drop).click()
    until(lambda: states(shared_dsn).get(STRANGE) == 1, "the row is gone")
    until(lambda: not page.find_elements(By.CSS_SELECTOR, rows), "the list is empty")


def test_on_a_phone_an_error_stands_under_its_task(page: Any) -> None:
    """A column of its own would be a few letters wide."""
    bad = "#messages tr:last-child"
    until(lambda: text(page, f"{bad} td:first-child") == "Parked", "they are drawn")
    why = page.find_element(By.CSS_SELECTOR, f"{bad} .pecker-why")
    own = page.find_element(By.CSS_SELECTOR, f"{bad} td:nth-child(6)")
    assert (why.is_displayed(), own.is_displayed()) == (False, True)
    with phone(page):
        until(lambda: not own.is_displayed(), "its column is gone")
        assert why.text == "the queue <i>eu</i> is unknown"


def test_nothing_hinders_people(page: Any) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    until(lambda: text(page, "#total-depth") == "3", "all are drawn")
    assert hindrances(page) == []
