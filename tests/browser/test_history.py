"""The page History in a browser: charts with marks, a range in the address."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from selenium.webdriver.common.keys import Keys

from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figure_tables import FiguresWriter
from celery_pecker.kernel.figures import MINUTE_US, Figures
from tests.browser.axe import hindrances
from tests.browser.screen import Screen, watched
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site

NAME = "tick <b>"
CHART = "[data-charts] svg"


def fill(dsn: str) -> None:
    """Write some minutes of an entry, and what happened meanwhile."""
    figures, now_us = Figures(), to_us(SYSTEM.now())
    for minute in range(1, 8):
        at_us = now_us - minute * MINUTE_US
        for _ in range(60):
            for key in ("o1", "o11", "l8", f"r{minute}", "w3"):
                figures.add(f"entry {NAME}", at_us, key)
        figures.add(f"entry {NAME}", at_us, "o12")
    database = Database(dsn, schema="public", timeout=5.0, role="test")
    FiguresWriter(figures, database, uuid.uuid4(), clock=SYSTEM).leave()
    database.close()
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_marks (kind, what, at) values ('deploy', 'v7', %s)",
            [SYSTEM.now() - timedelta(minutes=3)],
        )


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an app that has figures."""
    fill(shared_dsn)
    return start(shared_dsn, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Screen]:
    """Give the page of an entry's history, drawn; no script fails."""
    with watched(Screen(browser, site)) as screen:
        screen.open("/history?name=tick+%3Cb%3E&since=1h")
        screen.until(lambda: len(screen.all(CHART)) == 4, "four charts")
        yield screen


def test_charts_and_cards_say_what_the_tables_do(page: Screen) -> None:
    """Runs, what ended badly, and the deploy as a mark in each chart."""
    assert page.text("#total-runs") == "420"
    assert page.text("#sub-runs") == "7 failed"
    assert page.text("#total-late") == "16 ms"
    assert len(page.all(f"{CHART} .pecker-flag-deploy")) == 4
    assert "v7" in page.text("#marks tbody")
    marks = page.find("#marks").rect["y"]
    assert all(one.rect["y"] < marks for one in page.all(CHART)), "charts come first"
    runs = page.all(CHART)[3].get_attribute("aria-label")
    assert runs == "Runs: succeeded at most 60, bad at most 1"


def test_a_range_stays_in_the_address(page: Screen) -> None:
    """A link to it shows the same."""
    page.click("[data-range='5m']")
    page.until(lambda: page.text("#total-runs") != "420", "other figures")
    assert "since=5m" in page.driver.current_url
    page.driver.refresh()
    page.until(lambda: len(page.all(CHART)) == 4, "drawn anew")
    assert page.find("[data-range='5m']").get_attribute("aria-pressed") == "true"
    page.click("[data-range='30d']")
    page.until(lambda: page.text("#total-runs") == "420", "all of it")


def test_keys_walk_through_it(page: Screen) -> None:
    """What stands at a moment is said in words, its marks included."""
    page.driver.execute_script("document.querySelector('.pecker-charts').focus()")
    page.press(Keys.HOME)
    point = ".pecker-inspect"
    page.until(lambda: "Run time: p50 9.5 ms" in page.text(point), "the oldest")
    for _ in range(10):
        if "deploy v7" in page.text(point):
            break
        page.press(Keys.ARROW_RIGHT)
    assert "deploy v7" in page.text(point)
    assert "Runs: succeeded 60, bad 1" in page.text(point)


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    assert hindrances(page.driver) == []
