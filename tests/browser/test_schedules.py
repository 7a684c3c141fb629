"""The page Schedules and the page of one, in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from celery_pecker.schedules.engine.model import task_id
from tests.browser.axe import hindrances
from tests.browser.screen import Screen as AnyScreen
from tests.browser.screen import watched
from tests.integration.flower.rows import Row, one, write
from tests.integration.flower.site import Site
from tests.proxy import Proxy

STRANGE = "<img src=x onerror='window.hacked = 1'>/../a b&c?d=e#f %2F\"'"
BLANK = "\u3000"
SLOTS = 130
FATES = (1,) * 100 + (2, 11, 12, 13, 21, 5) + (11,) * 24
ROWS = [
    Row(name="check", missed=4, timeout=800_000, late=(3000,) * SLOTS, reports=FATES),
    Row(name="behind", missed=9, period=60.0, behind=600.0, late=(2_000_000,)),
    Row(name=STRANGE, task="proj.<b>bold</b>", period=3600.0, late=(5000,) * 3),
    Row(name=BLANK, period=3600.0),
    *(Row(name=f"plain-{n:03}", period=3600.0, late=(n,)) for n in range(60)),
]


class Screen(AnyScreen):
    """The list, and the page of one."""

    def names(self) -> list[str]:
        """Return the entries of the list, as they stand there."""
        told: list[str] = self.driver.execute_script(
            "return [...document.querySelectorAll('.pecker-what a')]"
            ".map(link => link.textContent)"
        )
        return told

    def row(self, name: str) -> Any:
        """Return the row of an entry."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll('.pecker-what a')]"
            ".find(link => link.textContent === arguments[0]).closest('tr')",
            name,
        )


@pytest.fixture(scope="module")
def rows(shared_dsn: str) -> None:
    """Fill the tables that every test of this module reads."""
    write(shared_dsn, ROWS)
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "insert into pecker_outcomes (name, failed, bad_era, bad_due, bad_at,"
            " bad_report, bad_host, bad_error) values ('plain-003', 7, 0,"
            " '2026-01-01T12:00Z', now(), 12, 'celery@one', %s)",
            ["RuntimeError('<b>no</b>')"],
        )


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site], rows: None) -> Site:
    """Give a Flower below a prefix in which everybody may do everything."""
    return start(shared_dsn, prefix="fl", env={"FLOWER_UNAUTHENTICATED_API": "true"})


@pytest.fixture
def screen(browser: Any, site: Site, shared_dsn: str) -> Iterator[Screen]:
    """Give a screen on which nothing went wrong unseen.

    A scheduler is live, and an entry failing, for less time than the tests may take.
    """
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("update pecker_replicas set seen_at = now()")
        connection.execute("update pecker_outcomes set bad_at = now()")
    with watched(Screen(browser, site)) as screen:
        yield screen


def test_from_flowers_menu_to_an_entry_whatever_its_name(screen: Screen) -> None:
    """By clicks alone, as people come."""
    screen.driver.get(f"{screen.site.url}/workers")
    screen.find("nav a[href='/fl/schedules']").click()
    screen.until(screen.names, "the list is drawn")
    assert STRANGE in screen.names()
    assert screen.row(STRANGE).find_element(By.TAG_NAME, "small").text == (
        "proj.<b>bold</b>"
    )
    screen.row(STRANGE).find_element(By.TAG_NAME, "a").click()
    screen.until(lambda: screen.text("#name") == STRANGE, "its page is drawn")
    assert screen.find(".nav-link.active").text == "Schedules"


def test_the_list_lives_without_a_reload(screen: Screen, shared_dsn: str) -> None:
    """New figures come into the rows that are there; the focus stays where it is."""
    screen.open("/schedules?search=behind")
    link = screen.row("behind").find_element(By.TAG_NAME, "a")
    screen.driver.execute_script("arguments[0].focus()", link)
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("update pecker_tasks set missed = 77 where name = 'behind'")
    screen.until(lambda: "77" in screen.row("behind").text, "the new figure is there")
    assert screen.stayed
    assert screen.driver.switch_to.active_element == link
    assert "Overdue" in screen.row("behind").text
    assert screen.row("behind").find_elements(By.CSS_SELECTOR, ".pecker-bars-slow[d]")


def test_the_list_is_searched_sorted_and_turned_by_keys(screen: Screen) -> None:
    """And the address says what is shown, so that it can be sent to somebody."""
    screen.open("/schedules")
    assert len(screen.names()) == 50
    screen.press("]")
    screen.until(lambda: len(screen.names()) == len(ROWS) - 50, "the next page")
    screen.press("[", "/")
    screen.press("PLAIN-01")
    screen.until(lambda: len(screen.names()) == 10, "what was searched")
    assert screen.driver.current_url.endswith("?search=PLAIN-01")
    screen.press(Keys.ESCAPE)
    screen.until(lambda: len(screen.names()) == 50, "all of them again")
    screen.find("th[data-order='missed'] button").click()
    screen.until(lambda: screen.names()[0] == "behind", "the most missed first")
    head = screen.find("th[data-order='missed']")
    assert head.get_attribute("aria-sort") == "descending"
    assert "order=missed&descending=1" in screen.driver.current_url
    screen.driver.refresh()
    screen.until(lambda: screen.names()[0] == "behind", "as it was sent")


def test_what_always_raises_is_failing(screen: Screen) -> None:
    """With what it raised, and the way to Flower's own page of the task."""
    screen.open("/schedules?search=plain-003")
    row = screen.row("plain-003")
    screen.until(lambda: "Failing" in row.text, "its state")
    badge = row.find_element(By.CSS_SELECTOR, ".pecker-state")
    assert badge.get_attribute("title") == "failed: RuntimeError('<b>no</b>')"
    assert screen.text("#total-failing") == "1"
    row.find_element(By.TAG_NAME, "a").click()
    screen.until(lambda: "on celery@one" in screen.text("#bad"), "how it ended")
    assert "RuntimeError('<b>no</b>')" in screen.text("#bad")
    assert "7 failed" in screen.text("#bad")
    due_us = 1_767_268_800 * 1_000_000
    link = screen.find("#bad a").get_attribute("href")
    task = task_id("public", "plain-003", due_us, 0)
    assert link == f"{screen.site.url}/task/{task}"


def test_an_entry_is_paused_and_run_by_button_and_by_key(
    screen: Screen, shared_dsn: str
) -> None:
    """With the token of the page; what was done is said."""
    screen.open("/schedules?search=plain-007")
    row = screen.row("plain-007")
    row.find_element(By.CSS_SELECTOR, "[data-act='pause']").click()
    screen.until(lambda: "Paused" in row.text, "the row says so")
    assert "Paused plain-007" in screen.text("#pecker-message")
    row.find_element(By.CSS_SELECTOR, "[data-act='resume']")
    screen.driver.execute_script("document.activeElement.blur()")
    screen.press("j", "p")
    screen.until(lambda: "On time" in row.text, "the same key resumes it")
    screen.press("r")
    screen.until(lambda: "Asked" in screen.text("#pecker-message"), "it is asked for")
    assert one(
        shared_dsn, "select asked_by from pecker_pending where name = 'plain-007'"
    ) == ("flower:127.0.0.1",)
    assert screen.stayed


def test_the_page_of_an_entry_shows_each_slot(screen: Screen) -> None:
    """A strip with a colour and a mark for each fate; arrow keys tell of each."""
    screen.open("/schedules/entry?name=check")
    cells = screen.driver.find_elements(By.CSS_SELECTOR, ".pecker-place")
    assert len(cells) == SLOTS
    legend = screen.text("#legend")
    for words in ("Sent 100", "Succeeded 25", "Missed 1", "Failed 2", "Refused 1"):
        assert words in legend.replace("\n", " "), legend
    strip = screen.find("#strip")
    strip.send_keys(Keys.END)
    newest = screen.text("#inspect")
    assert "succeeded · 3 ms late · epoch" in newest
    strip.send_keys(*[Keys.ARROW_LEFT] * 24)
    assert "passed: the entry was paused" in screen.text("#inspect")
    strip.send_keys(Keys.ARROW_LEFT)
    assert "a newer run had overtaken it" in screen.text("#inspect")
    strip.send_keys(Keys.HOME)
    assert "sent · 3 ms late" in screen.text("#inspect")
    assert len(screen.driver.find_elements(By.CSS_SELECTOR, "#slots tbody tr")) == 20


@pytest.mark.usefixtures("rows")
def test_what_was_read_stays_while_the_database_is_away(
    browser: Any, shared_dsn: str, start: Callable[..., Site]
) -> None:
    """The page says so, and goes on by itself; one opened meanwhile comes back too."""
    at = conninfo_to_dict(shared_dsn)
    with Proxy(str(at["host"]), int(str(at["port"]))) as proxy:
        dsn = make_conninfo(shared_dsn, host="127.0.0.1", port=proxy.port)
        screen = Screen(browser, start(dsn))
        screen.open("/schedules?search=behind")
        screen.until(lambda: screen.names() == ["behind"], "it is read")
        proxy.refuse()
        screen.until(
            lambda: "got no answer" in screen.text("#pecker-live"), "it says so"
        )
        assert screen.names() == ["behind"]
        assert screen.stayed
        proxy.open()
        screen.until(lambda: screen.text("#pecker-live") == "Live", "it goes on")
        proxy.refuse()
        browser.get(f"{screen.site.url}/schedules")
        assert "cannot be read" in screen.text("h1")
        proxy.open()
        screen.until(lambda: len(screen.names()) == 50, "the page comes back")


def test_a_phone_has_all_that_one_needs_without_moving_sideways(
    screen: Screen,
) -> None:
    """The names, when they are due, and the buttons; a strip of readable width."""
    size = screen.driver.get_window_size()
    screen.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        for path, last in (
            ("/schedules", "#entries tbody tr [data-act='pause']"),
            ("/schedules/entry?name=check", "#acts [data-act='pause']"),
        ):
            screen.open(path)
            wide = screen.driver.execute_script(
                "return [innerWidth, document.documentElement.scrollWidth,"
                " document.querySelector(arguments[0]).getBoundingClientRect().right]",
                last,
            )
            assert max(wide) <= 390, (path, wide)
    finally:
        screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        screen.driver.set_window_size(size["width"], size["height"])


def test_a_key_acts_once_and_the_focus_stays_on_the_button(
    screen: Screen, shared_dsn: str
) -> None:
    """However long it is held; a button pressed by key can be pressed again."""
    screen.open("/schedules?search=plain-011")
    screen.driver.execute_script(
        "document.querySelector('.pecker-what a').focus();"
        "for (let nth = 0; nth < 5; nth++) { document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'r', bubbles: true, repeat: true})); }"
    )
    button = screen.row("plain-011").find_element(By.CSS_SELECTOR, "[data-act='pause']")
    button.send_keys(Keys.ENTER)
    screen.until(lambda: "Paused" in screen.row("plain-011").text, "it is paused")
    focused = screen.driver.switch_to.active_element
    assert focused.get_attribute("data-act") == "resume"
    asked = "select count(*) from pecker_pending where name = 'plain-011'"
    assert one(shared_dsn, asked) == (0,)


def test_a_name_of_blanks_can_be_seen_and_the_zone_is_told(screen: Screen) -> None:
    """And what somebody copies from the facts is not drawn anew under the hand."""
    screen.open("/schedules?order=name&descending=1")
    link = screen.find(".pecker-what a")
    assert link.text == f"“{BLANK}”"
    assert "Times in UTC" in screen.text(".pecker-footer")
    link.click()
    screen.until(lambda: screen.text("#pecker-live") == "Live", "its page is there")
    fact = screen.find("#facts dd span")
    heard = screen.find("#pecker-live").get_attribute("title")
    screen.until(
        lambda: screen.find("#pecker-live").get_attribute("title") != heard,
        "the next answer is drawn",
    )
    assert screen.find("#facts dd span") == fact


def test_the_overdue_are_one_key_away(screen: Screen) -> None:
    """What a click on the figure does, Enter does."""
    screen.open("/schedules?order=name&descending=1")
    screen.find("#card-overdue button").send_keys(Keys.ENTER)
    screen.until(lambda: screen.names()[0] == "behind", "the worst first")
    assert "order" not in screen.driver.current_url


def test_who_was_signed_out_is_told_so_and_no_login_begins(screen: Screen) -> None:
    """A redirect is not followed: it would begin a login beside that of the person."""
    screen.open("/schedules")
    screen.driver.execute_script(
        "window.asked = []; const real = window.fetch; window.fetch = (url, how) => {"
        " window.asked.push(how.redirect); return real('/fl/schedules/../login', how)"
        ".then(() => Object.defineProperty(new Response(), 'type',"
        " {value: 'opaqueredirect'})); };"
    )
    screen.until(lambda: "Signed out" in screen.text("#pecker-live"), "it is told")
    assert screen.driver.execute_script("return window.asked[0]") == "manual"
    screen.complaints()  # there is no login here


def test_nothing_hinders_people(screen: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    screen.open("/schedules")
    assert hindrances(screen.driver) == []
    screen.open("/schedules/entry?name=check")
    assert hindrances(screen.driver) == []


def test_keys_of_one_letter_can_be_switched_off(screen: Screen) -> None:
    """For good, on all pages; keys that are no letters go on."""
    screen.open("/schedules")
    try:
        screen.find("#pecker-letters").send_keys(Keys.SPACE)
        screen.driver.execute_script("document.activeElement.blur()")
        screen.press("j", "/", "]", "n")
        assert screen.driver.switch_to.active_element.tag_name == "body"
        screen.open("/schedules?page=2")
        screen.press("n", "[")
        assert not screen.find("#pecker-letters").is_selected()
        assert screen.stayed
        assert not screen.find(".pecker-keys").is_displayed()
        assert "page=2" in screen.driver.current_url
        link = screen.find(".pecker-what a")
        screen.driver.execute_script("arguments[0].focus()", link)
        screen.press(Keys.ARROW_DOWN)
        assert screen.driver.switch_to.active_element != link
    finally:
        screen.driver.execute_script("localStorage.clear()")
    screen.open("/schedules")
    screen.press("/")
    assert screen.driver.switch_to.active_element == screen.find("#filter-search")


def test_no_name_reorders_the_words_beside_it(screen: Screen) -> None:
    """Marks that turn text around are seen, and each name stands for itself."""
    screen.open("/schedules")
    shown = screen.driver.execute_script(
        "const link = document.querySelector('.pecker-what a');"
        "const made = pecker.el('span', {}, 'safe\\u202egnp.exe');"
        "pecker.text(link, 'a\\u2067b');"
        "const style = getComputedStyle(link).unicodeBidi;"
        "return [made.textContent, link.textContent, style]"
    )
    assert shown == ["safe\ufffdgnp.exe", "a\ufffdb", "isolate"]
