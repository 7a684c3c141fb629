"""The tables of a replica, a reader of them, and a clock that a test sets."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.model import (
    ClaimRequest,
    Delivery,
    Entry,
    Policy,
    RunMode,
)
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.overview import Overview

SECOND = 1_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)
START_US = to_us(START)
FAR = to_us(datetime(2100, 1, 1, tzinfo=UTC))


class Stage:
    """A replica's tables and a reader of them, under one clock that a test sets."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = START
        self.holder = uuid.uuid4()
        database.now = lambda: self.now
        self.repository = Repository(database, self.holder)
        self.overview = Overview(database)

    def declare(
        self, *names: str, period_us: int | None = SECOND, **options: Any
    ) -> None:
        """Enroll and declare entries."""
        self.repository.enroll(names)
        entries = [entry(name, period_us, **options) for name in names]
        self.repository.declare(entries, term=180.0)
        self.repository.announce(host="here", pid=7, version="1", entries=len(names))

    def win(self, *names: str) -> None:
        """Claim what is due of entries."""
        wanted = [
            ClaimRequest(entry=entry(name, SECOND), ahead_us=5 * SECOND)
            for name in names
        ]
        self.repository.claim(wanted, until_us=FAR)

    def after(self, seconds: float) -> None:
        """Set the clock to so many seconds after the start."""
        self.now = START + timedelta(seconds=seconds)

    def states(self) -> dict[str, str]:
        """Return the state of each entry."""
        return {row.name: row.state for row in self.overview.page().rows}


def entry(
    name: str, period_us: int | None, *, run: RunMode = RunMode.DISPATCH, **options: Any
) -> Entry:
    """Return an entry of one task."""
    policy = Policy(delivery=Delivery.AT_MOST_ONCE, timeout_us=SECOND // 2, run=run)
    return Entry(
        name=name,
        task=f"proj.{name[:3]}",
        described="every second",
        policy=policy,
        period_us=period_us,
        **options,
    )


@pytest.fixture
def stage(dsn: str) -> Iterator[Stage]:
    """Give the tables and their reader."""
    database = Database(dsn, schema="public", timeout=5.0, role="test")
    yield Stage(database)
    database.close()
