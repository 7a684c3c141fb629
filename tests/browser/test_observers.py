"""The page Observers in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.browser.axe import hindrances, phone
from tests.browser.screen import Screen, watched
from tests.integration.cli.observer_rows import statuses, write_observers
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site
from tests.integration.flower.test_observers import APP
from tests.integration.flower.test_observers import UNSENT as NOT_SENT

UNSENT = "#unsent"
ROWS = "#observers tbody tr"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over observers."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site, shared_dsn: str) -> Iterator[Screen]:
    """Give the page, drawn; no script fails."""
    write_observers(shared_dsn)
    with watched(Screen(browser, site)) as screen:
        screen.open("/observers")
        yield screen


def rows(page: Screen) -> int:
    """Return how many observers are listed."""
    return len(page.all(ROWS))


def test_hosts_are_bars_of_their_capacity(page: Screen) -> None:
    """As long as what they hold; what needs a look stands first."""
    page.until(lambda: page.text("#total-parked") == "1", "one is parked")
    assert page.text("#total-free") == "1"
    parts = page.driver.execute_script(
        "return [...document.querySelectorAll('.pecker-full')].map(full =>"
        " Math.round(100 * full.offsetWidth / full.parentNode.clientWidth))"
    )
    assert parts == [80, 0, 0]
    assert "ConnectionError: <b>no</b> route" in page.text(ROWS)


def test_one_is_searched_and_its_life_is_drawn(page: Screen) -> None:
    """The address keeps both."""
    page.find("#filter-search").send_keys("bad")
    page.until(lambda: rows(page) == 1, "one is found")
    page.find(f"{ROWS} .btn-link").click()
    parts = "#life-strip rect"
    page.until(lambda: len(page.all(parts)) == 4, "its life")
    assert page.driver.current_url.endswith("?search=bad&name=bad")
    events = page.all("#events tbody tr td:nth-child(2)")
    assert [one.text for one in events] == ["parked", "failed", "started", "created"]
    page.find("#close").click()
    page.until(lambda: not page.find("#life").is_displayed(), "it is closed")


def test_a_parked_one_is_restarted_and_another_stopped(
    page: Screen, shared_dsn: str
) -> None:
    """What cannot be taken back waits for ten seconds, beside what undoes it."""
    page.find("[data-key=bad] [data-act=restart]").click()
    page.until(lambda: page.text("#total-parked") == "0", "none is parked")
    stop = "[data-key=wait] [data-act=stop]"
    page.find(stop).click()
    page.until(lambda: page.all("#pecker-waiting button"), "it can be undone")
    assert statuses(shared_dsn)["wait"] == "created"
    page.until(lambda: statuses(shared_dsn)["wait"] == "deleted", "it is deleted")
    page.until(lambda: rows(page) == 4, "it is gone")


def test_signatures_that_could_not_be_sent_are_said(
    page: Screen, shared_dsn: str
) -> None:
    """Why, above the hosts; nothing is said where all were sent."""
    assert not page.find(UNSENT).is_displayed()
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(NOT_SENT)
    try:
        page.until(lambda: page.find(UNSENT).is_displayed(), "it is shown")
        assert page.find(UNSENT).text.endswith(": NotRegistered: tell")
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute("delete from pecker_observer_notices")


def test_on_a_phone_an_error_stands_under_its_observer(page: Screen) -> None:
    """So it does in the list of events; a column of its own would be too narrow."""
    page.until(lambda: rows(page) == 5, "all are drawn")
    page.find("[data-key=bad] .btn-link").click()
    page.until(lambda: page.all("#events .pecker-why"), "events")
    whys = page.all("[data-key=bad] .pecker-why, #events tr:nth-child(2) .pecker-why")
    assert [one.is_displayed() for one in whys] == [False, False]
    with phone(page.driver):
        page.until(lambda: all(one.is_displayed() for one in whys), "both are shown")
        assert {one.text for one in whys} == {"ConnectionError: <b>no</b> route"}


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone; the life of one too."""
    page.until(lambda: rows(page) == 5, "all are drawn")
    page.find(f"{ROWS} .btn-link").click()
    page.until(lambda: page.all("#life-strip rect"), "its life")
    assert hindrances(page.driver) == []
