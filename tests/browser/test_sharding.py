"""The pages of sharded jobs in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.axe import hindrances
from tests.browser.screen import Screen as AnyScreen
from tests.browser.screen import watched
from tests.integration.flower.site import Site
from tests.integration.sharding.flower.conftest import shared_dsn, site, start, written
from tests.integration.sharding.flower.scene import STRANGE, large, midway
from tests.integration.sharding.reading.written import Written

__all__ = ["shared_dsn", "site", "start", "written"]

PLACE = """
const canvas = document.querySelectorAll('.shard-grid')[arguments[0]];
if (!canvas) { return [0, 0, 0, 0]; }
const ratio = window.devicePixelRatio || 1;
const size = arguments[2] * ratio, columns = Math.floor(canvas.width / size);
const x = arguments[1] % columns * size, y = Math.floor(arguments[1] / columns) * size;
return [...canvas.getContext('2d').getImageData(x + 1, y + 1, 1, 1).data];
"""
"""The colour of a place: the grid's number, the place's, and how large places are."""


class Screen(AnyScreen):
    """The list of jobs, and the page of one."""

    def row(self, task_id: str) -> Any:
        """Return the row of a job in the list."""
        return self.find(f"#jobs tbody tr[data-key='{task_id}']")

    def act(self, task_id: str, act: str) -> None:
        """The button of a job is pressed."""
        self.row(task_id).find_element(By.CSS_SELECTOR, f"[data-act={act}]").click()

    def colour(self, grid: int, place: int, size: int = 18) -> list[int]:
        """Return the colour of a place in a grid."""
        told: list[int] = self.driver.execute_script(PLACE, grid, place, size)
        return told

    def point(self, grid: int, place: int, size: int = 18) -> None:
        """The pointer is above a place."""
        canvas = self.driver.find_elements(By.CSS_SELECTOR, ".shard-grid")[grid]
        wide, high = canvas.size["width"], canvas.size["height"]
        columns = wide // size
        ActionChains(self.driver).move_to_element_with_offset(
            canvas,
            place % columns * size + size // 2 - wide // 2,
            place // columns * size + size // 2 - high // 2,
        ).perform()


@pytest.fixture
def screen(browser: Any, site: Site) -> Iterator[Screen]:
    """Give the pages; at the end no script has failed."""
    with watched(Screen(browser, site)) as screen:
        yield screen


def test_the_list_shows_jobs_and_lets_people_act(
    screen: Screen, written: Written
) -> None:
    """What cannot be taken back waits for ten seconds."""
    midway(written, "list-a")
    screen.open("/sharding?search=list-a")
    assert screen.row("list-a").text.startswith("running")
    assert STRANGE in screen.row("list-a").text
    assert "49.5% of 210, layer 2 of 2" in screen.row("list-a").text
    screen.act("list-a", "pause")
    screen.until(lambda: screen.row("list-a").text.startswith("paused"), "the pause")
    screen.act("list-a", "resume")
    screen.until(lambda: screen.row("list-a").text.startswith("running"), "it goes on")
    screen.act("list-a", "cancel")
    screen.until(lambda: screen.all("#pecker-waiting button"), "it can be undone")
    assert screen.row("list-a").text.startswith("running")
    screen.until(
        lambda: screen.row("list-a").text.startswith(("delivering", "cancelled")),
        "its end",
    )
    assert screen.driver.execute_script("return window.stayed") is True


def test_a_job_is_found_by_searching_and_opened(
    screen: Screen, written: Written
) -> None:
    """Its name leads to its page."""
    midway(written, "found-1", key="needle")
    screen.open("/sharding")
    screen.find("#filter-search").send_keys("NEEDLE")
    screen.until(
        lambda: (
            len(screen.driver.find_elements(By.CSS_SELECTOR, "#jobs tbody tr")) == 1
        ),
        "only what was searched for",
    )
    screen.find("#jobs tbody a").click()
    screen.until(lambda: screen.text("#what").startswith("key needle"), "its page")
    assert screen.text("#name") == STRANGE
    assert screen.text("#why") == (
        "layer 2 of 2: 1 of at most 4 shards run, 2 items failed"
    )
    assert screen.text("#total-items") == "49.5%"
    screen.find("#acts a").click()
    screen.until(lambda: "/history?" in screen.driver.current_url, "how it was")
    screen.until(lambda: screen.find("#filter-of").get_attribute("value") == "job", "")
    assert screen.find("#filter-name").get_attribute("value") == STRANGE
    assert screen.text(".pecker-charts h2").lower().startswith("submitted")


def test_shards_are_places_of_a_grid_by_their_code(
    screen: Screen, written: Written
) -> None:
    """Alike ones have one colour; the pointer tells which, a click shows it."""
    midway(written, "grid")
    screen.open("/sharding/job?id=grid")
    ready, running = screen.colour(1, 0), screen.colour(1, 1)
    assert running != ready
    assert screen.colour(1, 2) == screen.colour(1, 10) == ready
    assert screen.colour(0, 0) not in (ready, running)
    assert screen.colour(0, 1)[3] == 0, "nothing is drawn behind the last"
    screen.point(1, 1)
    screen.until(
        lambda: (
            screen.text("#inspect")
            == "Shard 2, layer 2: running (202), a worker runs its items"
        ),
        "what lies under the pointer",
    )
    ActionChains(screen.driver).click().perform()
    screen.until(lambda: "4 of 10 ended" in screen.text("#chosen"), "the shard")
    assert "w1" in screen.text("#chosen")
    ActionChains(screen.driver).click().perform()
    screen.until(lambda: not screen.find("#chosen").is_displayed(), "it is closed")


def test_the_grid_is_walked_by_keys(screen: Screen, written: Written) -> None:
    """Arrows move, Enter shows."""
    midway(written, "keys")
    screen.open("/sharding/job?id=keys")
    canvas = screen.driver.find_elements(By.CSS_SELECTOR, ".shard-grid")[1]
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert screen.text("#inspect").startswith("Shard 2,")
    canvas.send_keys(Keys.ARROW_RIGHT + Keys.ARROW_RIGHT + Keys.ARROW_LEFT)
    assert screen.text("#inspect").startswith("Shard 3,")
    canvas.send_keys(Keys.ENTER)
    screen.until(lambda: "3, layer 2" in screen.text("#chosen"), "the shard")


def test_a_status_of_the_legend_shows_where_it_is(
    screen: Screen, written: Written
) -> None:
    """All others fade; pressed again, all is as before."""
    midway(written, "legend")
    screen.open("/sharding/job?id=legend")
    ready, running = screen.colour(1, 0), screen.colour(1, 1)
    screen.find("[data-code='202']").click()
    screen.until(lambda: screen.colour(1, 0) != ready, "the others fade")
    assert screen.colour(1, 1) == running
    assert screen.find("[data-code='202']").get_attribute("aria-pressed") == "true"
    screen.find("[data-code='202']").click()
    screen.until(lambda: screen.colour(1, 0) == ready, "as before")


def test_the_page_goes_on_without_a_reload(
    screen: Screen, written: Written, shared_dsn: str
) -> None:
    """A shard that ends changes its colour, and the figures."""
    job = midway(written, "alive")
    screen.open("/sharding/job?id=alive")
    before = screen.colour(1, 1)
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        connection.execute(
            "update pecker_shards set status = 301, done = 10, cursor = 10,"
            " ended_at = clock_timestamp() where job = %s and shard = 2",
            [job],
        )
        connection.execute(
            "update pecker_layers set done = 10, open = 10"
            " where job = %s and layer = 1",
            [job],
        )
    screen.until(lambda: screen.colour(1, 1) != before, "the shard has ended")
    assert screen.colour(1, 1) == screen.colour(0, 0)
    assert screen.text("#sub-items") == "110 of 210 items"
    assert screen.driver.execute_script("return window.stayed") is True


def test_failed_items_are_told_as_text_in_pages(
    screen: Screen, written: Written
) -> None:
    """With their traceback, which stays open while the page goes on."""
    midway(written, "errors")
    screen.open("/sharding/job?id=errors")
    rows = "#errors tbody tr"
    assert len(screen.driver.find_elements(By.CSS_SELECTOR, rows)) == 20
    assert STRANGE in screen.text(rows)
    screen.click("#errors details:not([hidden]) summary")
    assert "Traceback: here" in screen.text("#errors details:not([hidden]) pre")
    screen.click("#on")
    screen.until(
        lambda: len(screen.driver.find_elements(By.CSS_SELECTOR, rows)) == 11,
        "the next page",
    )
    screen.click("#back")
    screen.until(
        lambda: len(screen.driver.find_elements(By.CSS_SELECTOR, rows)) == 20,
        "the first page",
    )


@pytest.mark.parametrize("wide", [500, 800, 1400])
def test_pages_fit_a_phone(screen: Screen, written: Written, wide: int) -> None:
    """Nothing is wider than the screen, not even 10,000 shards."""
    large(written, f"wide-{wide}")
    midway(written, f"small-{wide}")
    screen.driver.set_window_size(wide, 900)
    for path in (
        f"/sharding?search={wide}",
        f"/sharding/job?id=wide-{wide}",
        f"/sharding/job?id=small-{wide}",
    ):
        screen.open(path)
        assert screen.driver.execute_script(
            "return document.documentElement.scrollWidth"
            " <= document.documentElement.clientWidth"
        ), path


def test_10_000_shards_are_all_drawn(screen: Screen, written: Written) -> None:
    """Each has a place of its own."""
    large(written, "many")
    screen.open("/sharding/job?id=many")
    screen.until(lambda: screen.colour(3, 2_499, 9)[3] > 0, "the last one is drawn")
    assert screen.colour(0, 0, 9) == screen.colour(0, 2_499, 9)
    assert screen.colour(0, 0, 9) != screen.colour(3, 0, 9)
    shown = screen.text("#legend")
    assert "done (301)" in shown
    assert "running (202)\n64" in shown


def test_nothing_hinders_people(screen: Screen, written: Written) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    midway(written, "axe")
    screen.open("/sharding")
    assert hindrances(screen.driver) == []
    screen.open("/sharding/job?id=axe")
    assert hindrances(screen.driver) == []


def test_flowers_page_of_a_task_leads_back(
    screen: Screen, site: Site, written: Written
) -> None:
    """It is Flower's own page; the line is ours."""
    midway(written, "back-1")
    site.received("back-1", STRANGE)
    screen.driver.get(f"{site.url}/task/back-1")
    screen.until(lambda: screen.all("#task-page a[href*='/sharding/job']"), "a link")
    screen.find("#task-page a[href*='/sharding/job']").click()
    screen.until(lambda: "back-1" in screen.driver.current_url, "the job's page")
    screen.until(lambda: screen.all(".shard-grid"), "is drawn")
