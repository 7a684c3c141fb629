"""The page Outbox in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.axe import hindrances, phone
from tests.browser.screen import Screen, watched
from tests.integration.flower.outbox_rows import (
    ANYBODY,
    APP,
    STRANGE,
    ids,
    states,
    write_outbox,
)
from tests.integration.flower.site import Site


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an outbox."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture
def page(browser: Any, site: Site, shared_dsn: str) -> Iterator[Screen]:
    """Give the page, drawn; no script fails."""
    write_outbox(shared_dsn, parked=2)
    with watched(Screen(browser, site)) as screen:
        screen.open("/outbox")
        # So tall that no row lies below the bar of what is chosen.
        browser.set_window_size(browser.get_window_size()["width"], 2_000)
        yield screen


def test_depth_and_time_to_drain_stand_first(page: Screen) -> None:
    """An overload looks harmless until the queue is a year long."""
    page.until(lambda: page.text("#total-depth") == "3", "three are due")
    assert page.text("#total-drain") == "never"
    assert page.text("#sub-relays") == "no relay runs"
    names = [one.text for one in page.all("#tasks button")]
    assert {*names} == {"proj.bill", "proj.remind", STRANGE}


def test_a_task_is_chosen_and_the_address_keeps_it(page: Screen) -> None:
    """Its messages alone are shown, until all are asked for."""
    page.find("#tasks [data-key='proj.bill'] button").click()
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 3, "three rows")
    assert page.driver.current_url.endswith("?task=proj.bill")
    task = page.find("#filter-task")
    assert task.get_property("value") == "proj.bill"
    offered = page.driver.execute_script(
        "return [...arguments[0].list.options].map(one => one.value)", task
    )
    assert offered == sorted(["proj.bill", "proj.remind", STRANGE])
    task.send_keys(Keys.CONTROL + "a", Keys.BACKSPACE)
    page.until(lambda: len(page.all(rows)) == 6, "all rows")
    page.find("#filter-older_than").send_keys("1")  # no age yet
    task.send_keys("proj.remind")
    page.until(lambda: len(page.all(rows)) == 1, "one row")
    assert page.driver.current_url.endswith("?task=proj.remind")
    page.find("#filter-older_than").send_keys("h")
    page.until(lambda: not page.all(rows), "none is so old")
    assert page.driver.current_url.endswith("task=proj.remind&older_than=1h")


def test_pages_of_messages_are_turned_on_a_phone_too(
    page: Screen, shared_dsn: str
) -> None:
    """Back to each that was seen; the address keeps it, and so does the next look."""
    write_outbox(shared_dsn, due=305, parked=0, later=0)

    def first() -> str:
        return str(page.find("#messages tbody tr").get_attribute("data-key"))

    def turned(button: str) -> str:
        before = first()
        page.click(button)
        page.until(lambda: first() != before, "another page")
        return first()

    page.until(lambda: page.text("#range") == "100 messages of 305", "a page")
    with phone(page.driver):
        assert not page.find("#back").is_enabled()
        keys = [first(), *(turned("#on") for _ in range(3))]
        assert page.text("#range") == "5 messages of 305, not the first"
        assert not page.find("#on").is_enabled()
        assert [turned("#back"), turned("#back")] == keys[2:0:-1]
        page.open(page.driver.current_url.removeprefix(page.site.url))
        live = "return document.getElementById('pecker-live').title"
        seen = page.driver.execute_script(live)
        page.until(lambda: page.driver.execute_script(live) != seen, "the next look")
        assert first() == keys[1]
        assert turned("#back") == keys[0]
        assert page.driver.execute_script(
            "return document.documentElement.scrollWidth <= innerWidth"
        )
    assert page.driver.current_url.endswith("/outbox")


def test_a_parked_message_is_retried_and_another_dropped(
    page: Screen, shared_dsn: str
) -> None:
    """What cannot be taken back waits for ten seconds, beside what undoes it."""
    page.find("#filter-parked").click()
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 2, "two parked")
    assert "the queue <i>eu</i> is unknown" in page.text(rows)
    page.find(f"{rows} [data-act=retry]").click()
    page.until(lambda: len(page.all(rows)) == 1, "one is retried")
    drop = f"{rows} [data-act=drop]"
    undo = "#pecker-waiting li:first-child button"
    page.find(drop).click()
    page.until(lambda: " in " in page.text("#pecker-waiting"), "it waits")
    page.find(undo).click()
    page.until(lambda: ": undone " in page.text("#pecker-waiting"), "it is undone")
    assert states(shared_dsn)[STRANGE] == 2
    page.find(drop).click()
    page.until(lambda: states(shared_dsn).get(STRANGE) == 1, "the row is gone")
    page.until(lambda: not page.all(rows), "the list is empty")


def test_on_a_phone_an_error_stands_under_its_task(page: Screen) -> None:
    """A column of its own would be a few letters wide."""
    bad = "#messages tr:last-child"
    page.until(
        lambda: page.text(f"{bad} td.pecker-is-state") == "parked", "they are drawn"
    )
    why = page.find(f"{bad} .pecker-why")
    own = page.find(f"{bad} td.pecker-is-error")
    assert (why.is_displayed(), own.is_displayed()) == (False, True)
    with phone(page.driver):
        page.until(lambda: not own.is_displayed(), "its column is gone")
        assert why.text == "the queue <i>eu</i> is unknown"


def test_a_double_click_destroys_nothing(page: Screen, shared_dsn: str) -> None:
    """Its second click is on the dialog, or on the next row by then."""
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 6, "all rows")
    before = states(shared_dsn)
    actions = ActionChains(page.driver)
    actions.double_click(page.find(f"{rows} [data-act=drop]")).perform()
    page.until(lambda: page.all("#pecker-waiting button"), "it waits")
    for undo in page.all("#pecker-waiting button"):
        if undo.is_displayed():  # what was undone before is shown for a while
            undo.click()
    for box in page.all(f"{rows} .pecker-tick input")[:2]:
        box.click()
    page.until(
        lambda: page.all("[data-table=messages] .pecker-bulk [data-act=drop]"),
        "two are chosen",
    )
    page.find("[data-table=messages] .pecker-bulk [data-act=drop]").click()
    page.driver.execute_script(
        "document.querySelector('#pecker-confirm [value=yes]').dispatchEvent("
        "new MouseEvent('click', {detail: 1, bubbles: true, cancelable: true}))"
    )
    assert page.find("#pecker-confirm[open] h2").text.startswith("Drop ")
    page.answer("")
    page.find("#filter-parked").click()
    page.until(lambda: len(page.all(rows)) == 2, "two parked")
    ActionChains(page.driver).double_click(
        page.find(f"{rows} [data-act=retry]")
    ).perform()
    page.until(lambda: len(page.all(rows)) == 1, "one is retried, not two")
    assert states(shared_dsn) == before


def test_ticked_messages_are_dropped_together(page: Screen, shared_dsn: str) -> None:
    """A dialog says how many, and names some; one act, and one sentence of it."""
    page.find("#tasks [data-key='proj.bill'] button").click()
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 3, "three rows")
    for box in page.all(f"{rows} .pecker-tick input")[:2]:
        box.click()
    page.until(
        lambda: "2 messages" in page.text("[data-table=messages] .pecker-bulk"),
        "two are chosen",
    )
    page.find("[data-table=messages] .pecker-bulk [data-act=drop]").click()
    page.until(lambda: page.text("#pecker-question") == "Drop 2 messages?", "it asks")
    assert "proj.bill, proj.bill." in page.text("#pecker-confirm p")
    page.answer("yes")
    page.until(lambda: "outbox drop " in page.text("#pecker-message"), "it says so")
    page.until(lambda: states(shared_dsn)["proj.bill"] == 1, "two are dropped")
    page.until(
        lambda: not page.find("[data-table=messages] .pecker-bulk").is_displayed(),
        "none is chosen",
    )


def test_all_that_match_are_parked_at_once(page: Screen, shared_dsn: str) -> None:
    """Those of other pages too; the filter decides, and not what was drawn."""
    write_outbox(shared_dsn, due=103)
    page.find("#tasks [data-key='proj.bill'] button").click()
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 100, "a page of rows")
    page.find("#messages thead .pecker-tick input").click()
    page.until(
        lambda: "100 messages" in page.text("[data-table=messages] .pecker-bulk b"),
        "a page",
    )
    page.find("[data-table=messages] .pecker-bulk label input").click()
    page.find("[data-table=messages] .pecker-bulk [data-act=park]").click()
    asked = "Park all 103 messages that match?"
    page.until(lambda: page.text("#pecker-question") == asked, "it asks")
    page.answer("yes")
    said = "Parked, and not delivered before a retry: 103 messages."
    page.until(lambda: page.text("#pecker-message") == said, "it says so")
    assert page.text("#total-parked") in {"1", "104"}
    page.until(lambda: page.text("#total-parked") == "104", "all are parked")


def test_a_message_shows_its_facts_beside_the_table(page: Screen) -> None:
    """Also what a narrow screen has no column for; Escape closes it."""
    name = "#messages tbody tr td.pecker-what button"
    page.until(lambda: page.all(name), "they are drawn")
    page.find(name).click()
    page.until(lambda: page.find("#pecker-detail").is_displayed(), "it opens")
    facts = page.text("#pecker-detail")
    assert "recorded" in facts
    assert page.text(name) in facts
    assert hindrances(page.driver, "#pecker-detail")[-1:] == [
        "0 headings of the first level"
    ]
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.find("#pecker-detail").is_displayed(), "it is closed")


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone; with rows chosen, too."""
    page.until(lambda: page.text("#total-depth") == "3", "all are drawn")
    page.find("#messages thead .pecker-tick input").click()
    assert hindrances(page.driver) == []


def test_a_message_has_a_page_with_its_arguments_and_its_acts(
    page: Screen, shared_dsn: str
) -> None:
    """A link to Flower's page of the task, and back to the outbox."""
    link = "#messages tbody tr:last-child td:not(.pecker-what) a"

    def address() -> str:
        return str(page.find(link).get_attribute("href"))

    # Flower answers from a look that may be older than the rows of this test.
    there = ids(shared_dsn)
    page.until(
        lambda: address().partition("/outbox/message?id=")[2] in there, "it is drawn"
    )
    page.open(address()[address().index("/outbox") :])
    assert "the queue <i>eu</i> is unknown" in page.text("#verdict")
    assert "arguments" in page.text("#facts")
    row = "#messages tbody tr"
    id_ = page.text(f"{row} td.pecker-what small")
    assert page.find("#flower-task").get_attribute("href").endswith(f"/task/{id_}")
    assert hindrances(page.driver) == []
    page.click(f"{row} [data-act=retry]")
    page.until(lambda: "no relay runs" in page.text("#verdict"), "it is retried")
    assert states(shared_dsn)[STRANGE] == 2


def test_the_acts_of_a_row_stay_on_a_small_screen(page: Screen) -> None:
    """Whatever the names: they are not behind the edge of a laptop's screen."""
    page.driver.set_window_size(1280, 900)
    page.until(lambda: len(page.all("#messages tbody tr")) == 6, "all rows")

    def stay() -> bool:
        shown = [b for b in page.all("#messages tbody [data-act]") if b.is_displayed()]
        return all(one.rect["x"] + one.rect["width"] <= 1280 for one in shown)

    page.until(stay, "they are drawn anew within the smaller window")
