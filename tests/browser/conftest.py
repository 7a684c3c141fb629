"""A browser, and a Flower for it to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import chromium, programs
from tests.integration.flower.conftest import shared_dsn, start
from tests.services import absent

__all__ = ["browser", "driver", "shared_dsn", "start"]


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """Give a Chromium; skipped by name where there is none."""
    if programs() is None:
        absent("Chromium", "chromium and chromedriver are not on PATH", required=False)
    with chromium() as driver:
        yield driver


@pytest.fixture
def browser(driver: Any) -> Any:
    """Give the Chromium on an empty page, and with an empty log.

    The page of the test before is left first: while it is open it asks its server each
    second, and an answer about rows that this test has removed would be in this test's
    log.
    """
    driver.get("about:blank")
    driver.get_log("browser")
    return driver
