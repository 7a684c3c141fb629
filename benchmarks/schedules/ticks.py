"""How many statements a PostgreSQL has made, by its own count and its own clock.

Each statement takes the next value of a sequence. Unlike `pg_stat_database`, which
backends tell of once a second, a sequence says so at once.
"""

from __future__ import annotations

import threading
from typing import Any, Self

import numpy as np
import psycopg
from numpy.typing import NDArray

EVERY = 0.01
"""Seconds between two looks."""
LOOK = """
select extract(epoch from clock_timestamp())::float8,
       case when is_called then last_value else 0 end
from ticks
"""
COMMITS = """
select xact_commit from pg_stat_database where datname = current_database()
"""
Series = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Instants, and what was counted by then."""


class Watched:
    """Looks at the sequence all the time, on a thread and a connection of its own."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._seen: list[tuple[float, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """The sequence is there."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("create sequence if not exists ticks")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody looks any more."""
        self._ended.set()
        self._thread.join(10.0)

    @property
    def series(self) -> Series:
        """What was seen so far."""
        seen = np.array(self._seen, dtype=np.float64).reshape(-1, 2)
        return seen[:, 0], seen[:, 1]

    def commits(self) -> int:
        """Return the database's committed transactions, as its statistics say."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            [count] = connection.execute(COMMITS).fetchone() or (0,)
        return int(count)

    def _watch(self) -> None:
        connection: psycopg.Connection[Any]
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._ended.wait(EVERY):
                at, count = connection.execute(LOOK).fetchone() or (0.0, 0)
                self._seen.append((at, count))


def busiest_second(series: Series, since: float) -> float:
    """Return the most that was counted in any second, wherever it begins."""
    at, count = series
    first = int(np.searchsorted(at, since))
    last = int(np.searchsorted(at, at[-1] - 1.0, side="right"))
    begins = at[first:last]
    return float((np.interp(begins + 1.0, at, count) - count[first:last]).max())


def rate(series: Series, since: float) -> float:
    """Return what was counted per second from then to the end."""
    at, count = series
    first = int(np.searchsorted(at, since))
    return float((count[-1] - count[first]) / (at[-1] - at[first]))
