"""A real browser without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # as root in a container
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--lang=en",
)


def programs() -> tuple[str, str] | None:
    """Return where Chromium and its driver are; None if one is not there."""
    browser = os.environ.get("PECKER_TEST_CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None
    )
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def chromium(width: int = 1400, height: int = 1000) -> Iterator[Any]:
    """Give a browser of one window; RuntimeError if there is none."""
    found = programs()
    if found is None:
        message = "neither chromium nor chromium-browser, or no chromedriver"
        raise RuntimeError(message)
    options = Options()
    options.binary_location = found[0]
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found[1]))
    try:
        driver.set_window_size(width, height)
        yield driver
    finally:
        driver.quit()
