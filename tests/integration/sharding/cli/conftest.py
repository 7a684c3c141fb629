"""The command line, run in this process on real tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.cli import sharding
from tests.command_line import Line, lines
from tests.integration.sharding.reading.written import Written


@pytest.fixture
def line(dsn: str) -> Iterator[Line]:
    """Give the command line of an app on this test's own database."""
    given = {"pecker_database_timeout": 1.0, "timezone": "Europe/Berlin"}
    with lines(sharding, **given) as make:
        yield make(dsn)


@pytest.fixture
def written(dsn: str) -> Iterator[Written]:
    """Give what writes rows, as of now."""
    rows = Written(dsn, SYSTEM.now())
    yield rows
    rows.close()
