"""The page Alarms in a browser: drawn, alive, narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.axe import PHONE, hindrances, phone
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
        # An answer from before the end of another test is shown for a moment.
        screen.until(lambda: screen.text("#total-ringing") == "1", "one rings")
        screen.until(lambda: len(screen.all(ROW)) == 2, "two rows")
        yield screen


def test_what_rings_stands_first_with_its_reason(page: Screen, site: Site) -> None:
    """As the tables say; a failing target says why."""
    page.until(lambda: page.text("#total-ringing") == "1", "one rings")
    alarms = site.data("/alarms")["rows"]["alarms"]
    assert page.text(f"{ROW} td.pecker-is-state") == "ringing"
    assert alarms[0]["subject"] in page.text(ROW)
    assert alarms[0]["detail"] in page.text(ROW)
    assert page.text(f"{ROW}:nth-child(2) td.pecker-is-state") == "recovered"
    assert "ConnectionError: away" in page.text("#targets tbody")


def test_it_leads_to_the_chart_of_its_time(page: Screen) -> None:
    """Of its entry, with the moment at which it began in the middle."""
    since = f"{ROW} a[href*='/history?']"
    page.until(lambda: page.all(since), "since when is a link")
    page.click(since)
    page.until(lambda: page.all("[data-charts] svg"), "its charts")
    assert page.find("#filter-name").get_attribute("value") == "tick [bold]"
    assert "since=1h&until=" in page.driver.current_url


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


def test_who_takes_it_is_named_and_what_is_quiet_stays(page: Screen) -> None:
    """By the user of Flower, with a note; each act by its button and dialog."""
    act = f"{ROW}[data-key^='silent'] [data-act='%s']"
    page.click(act % "take")
    page.until(lambda: page.find("#pecker-confirm input").is_displayed(), "it asks")
    page.press("looking <b>at it</b>")
    page.answer("yes")
    page.until(lambda: "flower:127.0.0.1" in page.text(ROW), "it is taken")
    assert "looking <b>at it</b>" in page.text(ROW)
    assert not page.find(act % "take").is_displayed()
    page.click(act % "snooze")
    page.until(lambda: page.find("#pecker-confirm input").is_displayed(), "it asks")
    page.press("2h", Keys.ENTER)
    page.until(lambda: "snoozed for 120 min" in page.text(ROW), "it is snoozed")
    page.until(lambda: page.text("#total-ringing") == "0", "it is counted no more")
    assert page.text(f"{ROW} td.pecker-is-state") == "ringing"
    page.click(act % "mute")
    page.until(lambda: "muted by flower:127.0.0.1" in page.text(ROW), "it is muted")
    page.click(act % "unmute")
    page.until(lambda: "muted" not in page.text(ROW), "it is muted no more")
    page.click(act % "give-back")
    page.until(lambda: "flower:127" not in page.text(ROW), "it is given back")


def test_a_target_is_tried_from_the_page(page: Screen, shared_dsn: str) -> None:
    """A row that a scheduler sends, as it does notices."""
    page.click("#targets [data-act='test']")
    page.until(lambda: "A trial waits for" in page.text("#pecker-message"), "said")
    with psycopg.connect(shared_dsn) as connection:
        statement = "delete from pecker_alarm_notices where event = 'trial'"
        assert connection.execute(statement).rowcount == 1


def test_a_subject_leads_to_its_page(page: Screen) -> None:
    """Of an entry to that of the entry."""
    link = page.find(f"{ROW} td.pecker-is-name a")
    assert link.get_attribute("href").endswith(
        "/schedules/entry?name=tick%20%5Bbold%5D"
    )


def test_a_phone_shows_all_that_is_needed(page: Screen) -> None:
    """What rings, why, and who has it, without scrolling sideways; and the buttons."""
    with phone(page.driver):
        for css in ("td.pecker-is-name a", ".pecker-why", "[data-act='take']"):
            box = page.find(f"{ROW} {css}").rect
            assert box["width"] > 0
            assert box["x"] + box["width"] <= PHONE["width"]


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    page.until(lambda: page.text("#total-ringing") == "1", "all are drawn")
    assert hindrances(page.driver) == []
