"""The command line, run in this process on real tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.cli import sharding
from tests.integration.sharding.reading.written import Written


class Line:
    """``celery -A proj sharding …`` on one app."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, *words: str) -> Result:
        """Run a command; return its output and exit code."""
        context = CLIContext(app=self.app, no_color=True, workdir=None)
        result = CliRunner().invoke(sharding, words, obj=context)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with --json; return its document."""
        result = self(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture
def line(dsn: str) -> Iterator[Line]:
    """Give the command line of an app on this test's own database."""
    app = Celery("proj", set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn,
        pecker_database_timeout=1.0,
        broker_url="memory://",
        timezone="Europe/Berlin",
    )
    yield Line(app)
    app.close()


@pytest.fixture
def written(dsn: str) -> Iterator[Written]:
    """Give what writes rows, as of now."""
    rows = Written(dsn, SYSTEM.now())
    yield rows
    rows.close()
