"""Schedules in Django's admin, in a browser: typed, previewed, saved, at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from celery_pecker.schedules import Schedules
from tests.browser.axe import hindrances
from tests.browser.screen import Screen as AnyScreen
from tests.integration.django.conftest import Site

PAGES = "/admin/celery_pecker/schedule/"
STRANGE = "<img src=x onerror='window.hacked = 1'>"
UNNAMED = """
const shown = one => one.offsetParent !== null && one.type !== 'hidden';
const named = one => one.labels?.length || one.getAttribute('aria-label')
  || one.getAttribute('aria-labelledby') || one.textContent.trim() || one.title
  || (one.type === 'submit' && one.value);
return [...document.querySelectorAll(
    '#content input, #content select, #content textarea, #content button, #content a')]
  .filter(one => shown(one) && !named(one)).map(one => one.outerHTML);
"""
"""Controls that a screen reader could not name."""


class Screen(AnyScreen):
    """Pages of the schedules."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, path: str = "") -> None:
        """Open a page of the schedules."""
        self.driver.get(self.url + PAGES + path)


@pytest.fixture(scope="module")
def served(
    shared_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Give the address of a Django, and the key of a superuser's session."""
    users: Path = tmp_path_factory.mktemp("django") / "users.sqlite3"
    with ExitStack() as stack:
        site = Site(shared_dsn, PROJECT_PECKER_DSN=shared_dsn, PROJECT_USERS=str(users))
        stack.callback(site.close)
        yield site.serve("boss")


@pytest.fixture(scope="module")
def schedules(shared_dsn: str) -> Iterator[Schedules]:
    """Give the same schedules, edited by somebody else."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = shared_dsn
    schedules = Schedules(app)
    yield schedules
    schedules.close()
    app.close()


@pytest.fixture
def screen(
    browser: Any, served: tuple[str, str], schedules: Schedules
) -> Iterator[Screen]:
    """Give a screen of a person who has signed in; nothing went wrong unseen."""
    url, key = served
    for row in schedules.list():
        schedules.remove(row.name)
    screen = Screen(browser, url)
    browser.get(f"{url}/admin/login/")
    browser.add_cookie({"name": "sessionid", "value": key})
    screen.complaints()
    yield screen
    assert not screen.complaints()
    assert browser.execute_script("return window.hacked") is None


def test_the_next_runs_follow_what_is_typed(
    screen: Screen, schedules: Schedules
) -> None:
    """Without a button; Enter in a field saves."""
    screen.open("add/")
    screen.find("#id_name").send_keys(STRANGE)
    Select(screen.find("#id_kind")).select_by_value("cron")
    screen.find("#id_zone").send_keys("Europe/Paris")
    screen.find("#id_value").send_keys("0 7 24 12 *")
    screen.until(
        lambda: len(screen.driver.find_elements(By.CSS_SELECTOR, "ol time")) == 5,
        "five runs",
    )
    assert "12-24 07:00:00 CET" in screen.text("#pecker-preview ol")
    assert screen.find("#pecker-preview [aria-live]").get_attribute("aria-live")
    screen.find("#id_value").send_keys("*")
    screen.until(lambda: screen.find(".pecker-wrong"), "what is wrong")
    screen.find("#id_value").send_keys(Keys.BACKSPACE)
    screen.until(
        lambda: not screen.driver.find_elements(By.CSS_SELECTOR, ".pecker-wrong"),
        "it is mended",
    )
    assert schedules.list() == []
    screen.find("#id_task").send_keys("proj.report", Keys.ENTER)
    screen.until(lambda: "was added successfully" in screen.text("body"), "saved")
    [row] = schedules.list()
    assert (row.name, row.changed_by) == (STRANGE, "boss")


def test_both_versions_are_seen_before_one_is_replaced(
    screen: Screen, schedules: Schedules
) -> None:
    """The form that comes back is for the version that it shows."""
    schedules.set("raced", task="proj.report", schedule=60, by="alice")
    screen.open("raced/change/")
    schedules.set("raced", task="proj.report", schedule=90, by="bob")
    screen.find("#id_value").clear()
    screen.find("#id_value").send_keys("120")
    screen.find("[name='_save']").click()
    screen.until(lambda: screen.find("#pecker-conflict"), "both are shown")
    assert "version 2, by bob" in screen.text("#pecker-conflict").lower()
    cells = screen.driver.find_elements(By.CSS_SELECTOR, "#pecker-conflict td")
    assert [cell.text for cell in cells] == ["90", "120"]
    screen.find("[name='_save']").click()
    screen.until(lambda: "was changed successfully" in screen.text("body"), "saved")
    row = schedules.get("raced")
    assert row is not None
    assert (row.schedule, row.version) == ({"every": 120}, 3)


def test_another_name_in_the_form_renames(screen: Screen, schedules: Schedules) -> None:
    """A name that somebody has is refused at its field; history says where from."""
    # Other modules' tests have stored that name in the same tables: versions go on.
    before = schedules.set("report", task="proj.report", schedule=60, by="alice")
    schedules.set("taken", task="proj.report", schedule=60, by="alice")
    last = max([before.version, *(one.version for one in schedules.history(STRANGE))])
    screen.open("report/change/")
    name = "#id_name"
    screen.find(name).clear()
    screen.find(name).send_keys("taken")
    screen.find("[name='_save']").click()
    screen.until(lambda: "schedule has it" in screen.text("#id_name_error"), "refused")
    screen.find(name).clear()
    screen.find(name).send_keys(STRANGE)
    screen.find("[name='_save']").click()
    screen.until(lambda: "was changed successfully" in screen.text("body"), "saved")
    row = schedules.get(STRANGE)
    assert row is not None
    assert (row.schedule, row.version) == ({"every": 60}, last + 1)
    assert schedules.get("report") is None
    screen.open("report/history/")
    assert f"renamed to {STRANGE}" in screen.text("#pecker-changes")
    links = "#result_list th a"
    screen.open()
    screen.until(lambda: screen.find(links), "the list")
    shown = screen.driver.find_elements(By.CSS_SELECTOR, links)
    assert [link.text for link in shown] == sorted([STRANGE, "taken"])


def test_a_schedule_is_paused_and_run_by_its_buttons(
    screen: Screen, schedules: Schedules
) -> None:
    """They are no links: the token of the page goes with them."""
    schedules.set("paused", task="proj.report", schedule=60)
    screen.open("paused/change/")
    screen.find("[name='act'][value='pause']").click()
    screen.until(lambda: "paused" in screen.text("#pecker-now"), "it is said")
    screen.find("[name='act'][value='run']").click()
    screen.until(lambda: "Asked for a run" in screen.text(".messagelist"), "asked")
    screen.find("[name='act'][value='resume']").click()
    screen.until(lambda: "active" in screen.text("#pecker-now"), "it goes on")
    assert [one.change for one in schedules.history("paused")][:2] == [
        *("resumed", "paused"),
    ]


def test_every_control_has_a_name_and_a_phone_shows_the_form(
    screen: Screen, schedules: Schedules
) -> None:
    """For who hears the page, and for who has it in the hand."""
    schedules.set("report", task="proj.report", schedule=60)
    paths = ("", "add/", "report/change/", "report/history/", "report/delete/")
    for path in paths:
        screen.open(path)
        assert screen.driver.execute_script(UNNAMED) == [], path
    screen.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        for path in ("add/", "report/change/"):
            screen.open(path)
            wide = screen.driver.execute_script(
                "return [document.documentElement.scrollWidth, ...["
                "...document.querySelectorAll('#pecker-preview, [name=_save]')].map("
                "one => one.getBoundingClientRect().right)]"
            )
            assert max(wide) <= 390, (path, wide)
    finally:
        screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_hinders_people(screen: Screen, schedules: Schedules) -> None:
    """As axe-core sees what is ours in Django's pages."""
    schedules.set("report", task="proj.report", schedule=60)
    own = "label-title-only: #searchbar"  # Django's: no label that one can see
    for path in ("", "add/", "report/change/", "report/history/", "report/delete/"):
        screen.open(path)
        seen = hindrances(screen.driver, "#content")
        assert [one for one in seen if own not in one] == [], path
    screen.driver.get(f"{screen.url}/admin/celery_pecker/outboxmessage/")
    seen = hindrances(screen.driver, "#content")
    assert [one for one in seen if own not in one] == []
