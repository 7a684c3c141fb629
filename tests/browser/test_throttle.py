"""The page Throttle in a browser: drawn, alive, and honest while Redis is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from celery_pecker.testing import EmbeddedRedis
from tests.browser.axe import hindrances
from tests.browser.screen import Screen as AnyScreen
from tests.browser.screen import watched
from tests.integration.flower.site import Site
from tests.integration.throttle.crew import Crew
from tests.integration.throttle.flower.conftest import (
    LIMITS,
    STRANGE,
    TRAFFIC,
    counting,
    crew,
    shared_dsn,
    start_over,
)

__all__ = ["counting", "crew", "shared_dsn", "start_over"]


class Screen(AnyScreen):
    """The page, with its panels."""

    def text(self, css: str) -> str:
        """Return what stands there; empty where there is nothing."""
        found = self.driver.find_elements(By.CSS_SELECTOR, css)
        return str(found[0].text) if found else ""

    def panels(self) -> list[str]:
        """Return the databases, from the top."""
        told: list[str] = self.driver.execute_script(
            "return [...document.querySelectorAll('.throttle-panel h2')]"
            ".map(head => head.textContent)"
        )
        return told

    def ask(self, script: str, *given: Any) -> Any:
        """Return what a script says of the page."""
        return self.driver.execute_script(f"return {script}", *given)


@pytest.fixture(scope="module")
def site(counting: EmbeddedRedis, start_over: Callable[..., Site], crew: Crew) -> Site:
    """Give a Flower that anybody may look at."""
    assert crew.workers
    return start_over(
        throttle_redis_url=counting.url,
        throttle_limits=LIMITS,
        throttle_estimator="fast",
    )


@pytest.fixture
def screen(browser: Any, site: Site) -> Iterator[Screen]:
    """Give the page; at the end no script has failed."""
    with watched(Screen(browser, site)) as screen:
        yield screen


def test_what_needs_a_look_stands_on_top(screen: Screen) -> None:
    """Figures of all, then a panel for each, the worst first."""
    screen.open("/throttle")
    screen.until(lambda: screen.panels() == [STRANGE, "main", "quiet"], "the order")
    assert screen.text("#total-hot") == "1"
    assert screen.text("#total-held") == "42"
    assert screen.text("#sub-held").startswith("for main; the oldest for ")
    assert screen.text("#total-workers") == "2"
    assert "none for quiet" in screen.text("#sub-workers")
    assert screen.driver.title == "(1 above) Throttle · Flower"
    assert screen.text(".throttle-over .throttle-state") == "over"
    assert screen.text(".throttle-over .throttle-summary") == "above its limit"
    assert "42 tasks wait" in screen.text(".throttle-holding .throttle-summary")


def test_a_bar_stands_for_the_traffic_and_its_mark_for_the_limit(
    screen: Screen,
) -> None:
    """As wide as the part of the limit that is used; what is outside is hatched."""
    screen.open("/throttle")

    def agrees() -> bool:
        bar, used = screen.ask(
            """(() => {
                const panel = document.querySelector('.throttle-holding');
                const at = css => panel.querySelector(css).getBoundingClientRect();
                const limit = at('.throttle-mark').left - at('.throttle-bar').left;
                const drawn = at(".throttle-outside").right - at(".throttle-bar").left;
                const used = panel.querySelector('.throttle-figures b').textContent;
                return [drawn / limit, parseInt(used)];
            })()"""
        )
        return bool(used > 50 and abs(bar * 100 - used) < 3)

    screen.until(agrees, "the bar is as long as the figure says")
    assert screen.ask(
        "document.querySelector('.throttle-holding .throttle-outside').offsetWidth > 0"
    )


def test_the_page_goes_on_without_a_reload(screen: Screen, crew: Crew) -> None:
    """Every two seconds; what somebody opened stays open."""
    screen.open("/throttle")
    screen.until(lambda: len(screen.panels()) == 3, "the panels")
    line = ".throttle-holding .throttle-line"
    before = screen.ask("document.querySelector(arguments[0]).getAttribute('d')", line)
    details = "document.querySelector('.throttle-over details')"
    screen.until(lambda: screen.ask(f"{details}.open"), "trouble is open")
    screen.driver.find_element(By.CSS_SELECTOR, ".throttle-over summary").click()
    screen.until(
        lambda: (
            screen.ask("document.querySelector(arguments[0]).getAttribute('d')", line)
            != before
        ),
        "the chart went on",
    )
    try:
        crew.traffic = {"main": 4000.0}
        screen.until(lambda: not screen.text(".throttle-over"), "the end of the rush")
    finally:
        crew.traffic = TRAFFIC
    screen.until(lambda: screen.text(".throttle-over"), "another rush")
    assert not screen.ask(f"{details}.open"), "closed by hand, it stays closed"
    assert screen.ask("window.stayed") is True


def test_workers_and_tenants_are_told_as_text(screen: Screen) -> None:
    """Whatever they are called."""
    screen.open("/throttle")
    rows = "[...document.querySelectorAll('.throttle-holding table')].map(table =>"
    rows += "[...table.tBodies[0].rows].map(row => row.cells[0].textContent))"
    workers, tenants = screen.until(lambda: screen.ask(rows), "the tables")
    assert sorted(workers) == sorted(["w1@node", STRANGE])
    assert sorted(tenants) == sorted(["acme", STRANGE])


@pytest.mark.parametrize("wide", [500, 800, 1400])
def test_it_fits_a_phone(screen: Screen, wide: int) -> None:
    """Nothing is wider than the screen."""
    screen.driver.set_window_size(wide, 900)
    screen.open("/throttle")
    screen.until(lambda: len(screen.panels()) == 3, "the panels")
    assert screen.ask(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def test_an_outage_is_said_and_its_end_is_seen(
    screen: Screen, counting: EmbeddedRedis
) -> None:
    """The page stays, faded, with why; it comes back by itself."""
    screen.open("/throttle")
    screen.until(lambda: len(screen.panels()) == 3, "the panels")
    counting.kill()
    try:
        screen.until(lambda: "No answer for" in screen.text("#away"), "the outage")
        assert "policy of each limit (safe)" in screen.text("#away")
        assert screen.text("#pecker-live") == "No answer"
        assert screen.ask("pecker.root.classList.contains('pecker-stale')")
        assert len(screen.panels()) == 3
        gap = "document.querySelector('.throttle-gap').getAttribute('d')"
        screen.until(lambda: screen.ask(gap), "the gap in the chart")
    finally:
        counting.start()
    screen.until(lambda: screen.text("#pecker-live") == "Live", "the return")
    assert not screen.text("#away")
    assert screen.ask("window.stayed") is True


def test_nothing_hinders_people(screen: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    screen.open("/throttle")
    screen.until(lambda: len(screen.panels()) == 3, "the panels")
    assert hindrances(screen.driver) == []
