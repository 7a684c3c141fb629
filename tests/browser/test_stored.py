"""Stored schedules in a browser: added, previewed, changed, fought over, removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from celery_pecker.schedules import Schedules
from tests.browser.axe import hindrances
from tests.browser.screen import watched
from tests.browser.test_schedules import Screen
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.rows import Row, one, write
from tests.integration.flower.site import Site
from tests.integration.flower.test_stored import ALLOW

STRANGE = "<img src=x onerror='window.hacked = 1'>/../a b&c?d=e#f %2F\"'"
STORED = "select task, schedule::text, version from pecker_schedules where name = %(n)s"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower below a prefix in which everybody may edit the shop's tasks."""
    write(shared_dsn, [Row(name="code's")])
    return start(shared_dsn, prefix="fl", more=ALLOW, env=ANYBODY)


@pytest.fixture(scope="module")
def schedules(shared_dsn: str) -> Iterator[Schedules]:
    """Give what somebody else edits by."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = shared_dsn
    made = Schedules(app)
    yield made
    made.close()


@pytest.fixture
def screen(browser: Any, site: Site, shared_dsn: str) -> Iterator[Screen]:
    """Give a screen on which no script failed; only answers may be refusals."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("truncate pecker_schedules, pecker_schedule_changes")
        connection.execute("delete from pecker_tasks where name <> 'code''s'")
        connection.execute("delete from pecker_declarations where name <> 'code''s'")
    with watched(Screen(browser, site), allowed="/act - ") as screen:
        yield screen


def fill(screen: Screen, **fields: str) -> None:
    """Type into the form, as somebody does."""
    for name, value in fields.items():
        field = screen.find(f"#edit [name={name}]")
        if field.tag_name == "select":
            Select(field).select_by_value(value)
        else:
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(value)


def test_a_schedule_is_added_previewed_changed_and_removed(
    screen: Screen, shared_dsn: str
) -> None:
    """By keys and clicks, as people do; the preview stands there before saving."""
    screen.open("/schedules")
    screen.press("n")
    screen.until(lambda: screen.text("#name") == "New schedule", "the form is open")
    fill(screen, name=STRANGE, task="shop.bill", kind="cron", value="0 7 * * mon")
    fill(screen, zone="Asia/Tokyo")
    screen.until(lambda: "Asia/Tokyo" in screen.text("#words"), "it is previewed")
    runs = screen.driver.execute_script(
        "return [...document.querySelectorAll('#runs li')].map(run => run.textContent)"
    )
    assert len(runs) == 5
    assert all(run.startswith("Sun") and "22:00:00" in run for run in runs), "in UTC"
    assert all(run.endswith("07:00 Asia/Tokyo") for run in runs)
    assert one(shared_dsn, "select count(*) from pecker_schedules") == (0,)
    screen.press(Keys.CONTROL, Keys.ENTER)
    screen.until(lambda: screen.find("#changes tbody tr"), "the page of the entry")
    assert screen.text("#name") == STRANGE
    assert "07:00" in screen.text("#what")
    assert one(shared_dsn, STORED, n=STRANGE) == (
        "shop.bill",
        '{"cron": "0 7 * * mon", "zone": "Asia/Tokyo"}',
        1,
    )
    screen.find("#edit").click()
    screen.until(lambda: screen.find("#remove"), "its form is open")
    fill(screen, kind="every", value="90")
    screen.until(lambda: "90 seconds" in screen.text("#words"), "previewed anew")
    screen.find("#save").click()
    screen.until(lambda: "→" in screen.text("#changes tbody"), "who changed what")
    assert "flower:127.0.0.1" in screen.text("#changes tbody tr")
    assert one(shared_dsn, STORED, n=STRANGE) == ("shop.bill", '{"every": 90}', 2)
    screen.find("#edit").click()
    screen.until(lambda: screen.find("#remove"), "its form is open")
    screen.find("#remove").click()
    screen.until(screen.names, "the list is drawn")
    screen.until(lambda: "Removed" in screen.row(STRANGE).text, "it is removed")


def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(
    screen: Screen, shared_dsn: str
) -> None:
    """Also where the server alone knows; a field that is folded away is opened."""
    screen.open("/schedules/edit")
    fill(screen, name="bills", task="proj.other", value="0.01")
    screen.until(lambda: "0.1 s" in screen.text("#e-value"), "while it is typed")
    fill(screen, value="30")
    screen.until(lambda: screen.text("#e-value") == "", "it is mended")
    screen.find("#save").click()
    screen.until(lambda: "shop.*" in screen.text("#e-task"), "not a task to schedule")
    assert screen.find("[name=task]").get_attribute("aria-invalid") == "true"
    fill(screen, task="shop.bill")
    screen.find("#more summary").send_keys(Keys.ENTER)
    fill(screen, grace="soon")
    screen.until(lambda: "soon" in screen.text("#e-grace"), "told where it is")
    screen.find("#more summary").send_keys(Keys.ENTER)
    screen.find("#save").click()
    screen.until(lambda: screen.find("#e-grace").is_displayed(), "it is opened")
    assert screen.find("[name=name]").get_attribute("value") == "bills"
    assert one(shared_dsn, "select count(*) from pecker_schedules") == (0,)


def test_a_conflict_shows_both_versions_and_keeps_what_was_typed(
    screen: Screen, schedules: Schedules, shared_dsn: str
) -> None:
    """One takes what is stored, or saves over it; the page says so before that.

    A pause is no version: it outlives a form whose box nobody has touched.
    """
    schedules.set("bills", task="shop.bill", schedule=30, by="anna")
    screen.open("/schedules/edit?name=bills")
    fill(screen, value="45")
    schedules.set("bills", task="shop.sync", schedule=60, by="bob")
    screen.until(lambda: "bob has changed it" in screen.text("#newer"), "it is seen")
    screen.find("#save").click()
    screen.until(lambda: screen.find("#conflict").is_displayed(), "both are shown")
    rows = screen.driver.find_elements(By.CSS_SELECTOR, "#differences tbody tr")
    assert [row.text.split() for row in rows] == [
        ["Task", "shop.sync", "shop.bill"],
        ["Schedule", "60", "45"],
    ]
    assert screen.find("[name=value]").get_attribute("value") == "45"
    assert one(shared_dsn, STORED, n="bills") == ("shop.sync", '{"every": 60}', 2)
    screen.find("#take").click()
    screen.until(
        lambda: screen.find("[name=task]").get_attribute("value") == "shop.sync",
        "the stored one is taken",
    )
    fill(screen, task="shop.bill", value="75")
    schedules.set("bills", task="shop.sync", schedule=61, by="bob")
    schedules.pause("bills", by="bob")
    screen.find("#save").click()
    screen.until(lambda: screen.find("#keep").is_displayed(), "once more")
    screen.find("#keep").click()
    kept = ("shop.bill", '{"every": 75}', 4)
    screen.until(lambda: one(shared_dsn, STORED, n="bills") == kept, "it is saved")
    screen.until(lambda: screen.find("#changes tbody tr"), "the page of the entry")
    saved = schedules.get("bills")
    assert saved is not None
    assert saved.paused


def test_another_name_in_the_form_renames(
    screen: Screen, schedules: Schedules, shared_dsn: str
) -> None:
    """A name that somebody has is refused at its field; the list has both."""
    schedules.set("bills", task="shop.bill", schedule=30, by="anna")
    schedules.set("taken", task="shop.bill", schedule=60, by="anna")
    screen.open("/schedules/edit?name=bills")
    fill(screen, name="taken")
    screen.find("#save").click()
    screen.until(lambda: "schedule has it" in screen.text("#e-name"), "it is refused")
    fill(screen, name=STRANGE)
    screen.find("#save").click()
    screen.until(lambda: screen.text("#name") == STRANGE, "under its new name")
    screen.until(lambda: 'from "bills"' in screen.text("#changes tbody"), "by whom")
    assert "created" in screen.text("#changes tbody"), "its history came with it"
    assert one(shared_dsn, STORED, n=STRANGE) == ("shop.bill", '{"every": 30}', 2)
    screen.open("/schedules")
    screen.until(lambda: "Removed" in screen.row("bills").text, "the old one is gone")
    assert STRANGE in screen.names()
    screen.open("/schedules/entry?name=bills")
    screen.until(lambda: STRANGE[:9] in screen.text("#changes tbody"), "where to")


def test_a_form_of_a_name_that_went_loses_nothing_that_was_typed(
    screen: Screen, schedules: Schedules, shared_dsn: str
) -> None:
    """Somebody has renamed it since: nothing is stored under the old name."""
    schedules.set("bills", task="shop.bill", schedule=30, by="anna")
    screen.open("/schedules/edit?name=bills")
    fill(screen, value="45")
    schedules.rename("bills", "other", by="bob")
    screen.find("#save").click()
    screen.until(lambda: "removed" in screen.text("#conflict"), "it is said")
    assert screen.find("[name=value]").get_attribute("value") == "45"
    assert one(shared_dsn, STORED, n="other") == ("shop.bill", '{"every": 30}', 2)
    assert schedules.get("bills") is None


def test_the_form_fits_a_phone_and_each_field_has_a_name(
    screen: Screen, schedules: Schedules
) -> None:
    """Nothing is wider than the window; who hears the page is read what is what."""
    schedules.set("x" * 200, task="shop." + "bill" * 30, schedule=30)
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    screen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for path in ("/schedules", "/schedules/edit", "/schedules/edit?name="):
            screen.open(path + ("x" * 200 if path.endswith("=") else ""))
            assert screen.driver.execute_script(
                "return document.documentElement.scrollWidth"
                " <= document.documentElement.clientWidth"
            ), path
    finally:
        screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    unnamed = screen.driver.execute_script(
        "return [...document.querySelectorAll('#pecker :is(button, input, select,"
        " textarea):not([type=hidden])')].filter(one => !("
        "one.getAttribute('aria-label') || one.textContent"
        " || one.labels[0] && one.labels[0].textContent).trim())"
        ".map(one => one.outerHTML)"
    )
    assert unnamed == []


def test_an_entry_of_code_has_no_form(screen: Screen) -> None:
    """It is said where it is changed."""
    screen.open("/schedules/edit?name=code%27s")
    screen.until(lambda: "beat_schedule" in screen.text("#closed"), "it is said")
    assert not screen.find("#edit").is_displayed()


def test_nothing_hinders_people(screen: Screen, schedules: Schedules) -> None:
    """As axe-core sees it: light, dark, on a phone; what is wrong is read out too."""
    schedules.set("bills", task="shop.bill", schedule=30)
    for path in ("/schedules/edit", "/schedules/edit?name=bills"):
        screen.open(path)
        fill(screen, value="0.01")
        screen.until(lambda: "0.1 s" in screen.text("#e-value"), "it is refused")
        assert hindrances(screen.driver) == [], path
    screen.open("/schedules/edit?name=code%27s")
    assert hindrances(screen.driver) == []
