"""What a person sees and does on a page; one for all pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from celery_pecker.testing import eventually
from tests.integration.flower.site import Site

NOT_YET = (NoSuchElementException, StaleElementReferenceException)


class Screen:
    """A page in a browser."""

    def __init__(self, driver: Any, site: Site) -> None:
        self.driver = driver
        self.site = site

    def open(self, path: str) -> None:
        """Wait until a page has drawn its first data; a reload does not come unseen."""
        self.driver.get(self.site.url + path)
        self.until(lambda: self.text("#pecker-live") == "Live", "the page is alive")
        self.driver.execute_script("window.stayed = true")

    def until(self, condition: Callable[[], Any], said: str) -> Any:
        """Wait until the condition is true."""
        return eventually(condition, 30.0, said, ignoring=NOT_YET)

    def find(self, css: str) -> Any:
        """Return an element."""
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[Any]:
        """Return all elements of a kind."""
        return [*self.driver.find_elements(By.CSS_SELECTOR, css)]

    def text(self, css: str) -> str:
        """Return what stands there."""
        return str(self.find(css).text)

    def click(self, css: str) -> None:
        """Click an element, wherever on the page it lies."""
        found = self.find(css)
        self.driver.execute_script(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", found
        )
        found.click()

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def answer(self, value: str) -> None:
        """Answer the dialog that asks before an act: "yes", or "" for Cancel."""
        button = f"#pecker-confirm[open] button[value='{value}']"
        self.until(lambda: self.find(button).is_displayed(), "a dialog asks")

        def pressed() -> bool:
            """Press until it counts: at once it might be half of a double-click."""
            for one in self.all(button):
                one.click()
            return not self.all("#pecker-confirm[open]")

        self.until(pressed, "it is closed")

    @property
    def stayed(self) -> bool:
        """Whether it is still the page that was opened."""
        return bool(self.driver.execute_script("return window.stayed === true"))

    def complaints(self) -> list[str]:
        """Return what the browser did not like: failed scripts, missing files."""
        return [
            line["message"]
            for line in self.driver.get_log("browser")
            if line["level"] == "SEVERE" and "favicon" not in line["message"]
        ]


S = TypeVar("S", bound=Screen)


@contextmanager
def watched(screen: S, *, allowed: str = "") -> Iterator[S]:
    """Yield a screen; at the end no script has failed, and no name was run as one.

    `allowed` stands in complaints that are expected.
    """
    screen.driver.set_window_size(1400, 1000)
    yield screen
    unexpected = [
        one for one in screen.complaints() if not allowed or allowed not in one
    ]
    assert not unexpected, unexpected
    assert not screen.driver.execute_script("return window.hacked")
