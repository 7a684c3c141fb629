"""Rows of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.sharding.conftest import Time
from tests.integration.sharding.reading.written import Written


@pytest.fixture
def written(dsn: str, time: Time) -> Iterator[Written]:
    """Give what writes rows into this test's own database."""
    assert time.at is not None
    rows = Written(dsn, time.at)
    yield rows
    rows.close()
