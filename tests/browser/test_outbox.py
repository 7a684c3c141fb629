"""The page Outbox in a browser: drawn, alive, at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.axe import hindrances, phone
from tests.browser.screen import Screen, watched
from tests.integration.flower.outbox_rows import (
    ANYBODY,
    APP,
    STRANGE,
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
    page.find("#only-task").click()
    page.until(lambda: len(page.all(rows)) == 6, "all rows")


def test_a_parked_message_is_retried_and_another_dropped(
    page: Screen, shared_dsn: str
) -> None:
    """What cannot be taken back is asked for first: a dialog says what is lost."""
    page.find("#filter-parked").click()
    rows = "#messages tbody tr"
    page.until(lambda: len(page.all(rows)) == 2, "two parked")
    assert "the queue <i>eu</i> is unknown" in page.text(rows)
    page.find(f"{rows} [data-act=retry]").click()
    page.until(lambda: len(page.all(rows)) == 1, "one is retried")
    drop = f"{rows} [data-act=drop]"
    page.find(drop).click()
    page.answer("")
    assert states(shared_dsn)[STRANGE] == 2
    page.find(drop).click()
    page.answer("yes")
    page.until(lambda: states(shared_dsn).get(STRANGE) == 1, "the row is gone")
    page.until(lambda: not page.all(rows), "the list is empty")


def test_on_a_phone_an_error_stands_under_its_task(page: Screen) -> None:
    """A column of its own would be a few letters wide."""
    bad = "#messages tr:last-child"
    page.until(lambda: page.text(f"{bad} td:first-child") == "parked", "they are drawn")
    why = page.find(f"{bad} .pecker-why")
    own = page.find(f"{bad} td.pecker-is-error")
    assert (why.is_displayed(), own.is_displayed()) == (False, True)
    with phone(page.driver):
        page.until(lambda: not own.is_displayed(), "its column is gone")
        assert why.text == "the queue <i>eu</i> is unknown"


def test_nothing_hinders_people(page: Screen) -> None:
    """As axe-core sees it: light, dark, on a phone."""
    page.until(lambda: page.text("#total-depth") == "3", "all are drawn")
    assert hindrances(page.driver) == []
