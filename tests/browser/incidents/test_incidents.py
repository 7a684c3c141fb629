"""The cause of an incident is on the first screen of Now, and its button ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_pecker.testing import eventually
from tests.browser.axe import hindrances, phone
from tests.browser.incidents.incidents import INCIDENTS
from tests.browser.incidents.scene import Scene, scene
from tests.browser.screen import NOT_YET, Screen

pytestmark = [
    # Four minutes for one browser: nightly, and whoever changes what Now finds
    pytest.mark.soak,
    pytest.mark.xdist_group("incidents"),  # one app for all of them
]
FIRST_SCREEN = """
const [title] = arguments;
return [...document.querySelectorAll('.pecker-cause h2')].some(one =>
    one.textContent === title && one.getBoundingClientRect().bottom <= innerHeight);
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Scene]:
    """Give the app, with all of it running; one for all incidents."""
    with scene() as made:
        yield made


@pytest.fixture(scope="module")
def page(running: Scene, driver: Any) -> Screen:
    """Give the page Now, which stays open."""
    screen = Screen(driver, running.site)
    screen.driver.set_window_size(1400, 1000)
    screen.open("/now")
    return screen


def is_well(page: Screen) -> bool:
    """Whether nothing is left but that there is one scheduler only."""
    return [one.text for one in page.all(".pecker-cause h2")] == ["schedulers"]


def shows(page: Screen, title: str) -> bool:
    """Whether a cause is on the first screen, without a touch."""
    return bool(page.driver.execute_script(FIRST_SCREEN, title))


def wait(page: Screen, condition: Any, said: str) -> None:
    """Wait for what the page says: a minute, for machines that are busy."""
    try:
        eventually(condition, 60.0, said, ignoring=NOT_YET)
    except AssertionError as error:
        shown = [card.text for card in page.all(".pecker-cause")]
        message = f"{error}; the page shows {shown}"
        raise AssertionError(message) from error


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_cause_is_on_the_first_screen(
    name: str, running: Scene, page: Screen
) -> None:
    """At 1,400 and at 390 px; and its button, where it has one, ends it."""
    one = INCIDENTS[name]
    wait(page, lambda: is_well(page), "nothing is wrong before")
    with one.begin(running):
        wait(page, lambda: shows(page, one.title), one.title)
        with phone(page.driver):
            wait(page, lambda: shows(page, one.title), f"{one.title}, on a phone")
        if one.button:
            cause = next(
                card for card in page.all(".pecker-cause") if one.title in card.text
            )
            [button] = [
                found
                for found in cause.find_elements("css selector", "button")
                if found.text == one.button
            ]
            button.click()
            page.answer("yes")
            wait(page, lambda: not shows(page, one.title), "its button has ended it")
    wait(page, lambda: is_well(page), "nothing is wrong after it")


def test_nothing_hinders_people(running: Scene, page: Screen) -> None:
    """Light, dark, on a phone; well, and while something is wrong."""
    wait(page, lambda: is_well(page), "nothing is wrong")
    assert not hindrances(page.driver)
    with INCIDENTS["forgotten_pause"].begin(running):
        wait(page, lambda: shows(page, "Paused entries"), "a cause is shown")
        assert not hindrances(page.driver)
