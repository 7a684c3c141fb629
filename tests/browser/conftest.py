"""A browser, and a Flower for it to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import chromium, programs
from tests.integration.flower.conftest import shared_dsn, start
from tests.services import absent

__all__ = ["browser", "shared_dsn", "start"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Give a Chromium; skipped by name where there is none."""
    if programs() is None:
        absent("Chromium", "chromium and chromedriver are not on PATH", required=False)
    with chromium() as driver:
        yield driver
