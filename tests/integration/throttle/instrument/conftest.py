"""A meter of each test's own, and what it has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from throttle import instrument
from throttle.meter import Meter
from throttle.model import Amount


class Count:
    """Says what was counted since it was asked last."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.last = Amount()

    def __call__(self, database: str = "main") -> tuple[int, int]:
        """Return operations and rows; nothing else was counted."""
        read = dict(self.meter.read().databases)
        self.last = read.pop(database, Amount())
        assert read == {}
        return int(self.last.operations), int(self.last.rows)

    @property
    def seconds(self) -> float:
        """What that took."""
        return self.last.seconds


@pytest.fixture
def count() -> Count:
    """Give a meter that nobody else writes to."""
    return Count()


@pytest.fixture
def connection(empty_dsn: str, count: Count) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection that counts, with a table of ten rows."""
    kind = instrument.psycopg(database="main", meter=count.meter)
    with kind.connect(empty_dsn, autocommit=True) as connected:
        connected.execute("create table t (a int)")
        connected.execute("insert into t select generate_series(1, 10)")
        assert count() == (2, 10)
        yield connected
