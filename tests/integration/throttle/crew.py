"""Workers of a night, as Redis hears them: ten times a second, until ended."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from celery_pecker.kernel.clock import monotonic
from throttle.errors import StoreUnavailable
from throttle.model import (
    TICK,
    Amount,
    DatabaseReport,
    Estimator,
    Holding,
    Report,
    Sample,
)
from throttle.store.redis import RedisStore


class Crew:
    """Reports of workers and of web processes to a real store.

    Args:
        url: Of the Redis.
        workers: What each worker holds, by name and database.
        traffic: Operations per second by database, of all workers.
        outside: The same, of processes that hold nothing.

    """

    def __init__(
        self,
        url: str,
        workers: Mapping[str, Mapping[str, Holding]],
        traffic: Mapping[str, float],
        outside: Mapping[str, float] | None = None,
    ) -> None:
        self.store = RedisStore(
            url, prefix="throttle", estimator=Estimator.FAST, timeout=2.0
        )
        self.workers = workers
        self.traffic = traffic
        self.outside: Mapping[str, float] = outside or {}
        self._number = 0
        self._since = monotonic() - TICK
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="crew", daemon=True)

    def __enter__(self) -> Self:
        """They have spoken once and go on."""
        self.turn()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """They have gone."""
        self._ended.set()
        self._thread.join(30.0)
        self.store.close()

    def turn(self) -> None:
        """All say once what they counted in a tick."""
        self._number += 1
        passed, self._since = monotonic() - self._since, monotonic()
        crews = Counter(name for one in self.workers.values() for name in one)
        for name, holdings in self.workers.items():
            told = {
                database: DatabaseReport(
                    samples=sample(
                        self.traffic.get(database, 0.0) / crews[database], passed
                    ),
                    holding=holding,
                )
                for database, holding in holdings.items()
            }
            self._say(name, told)
        web = {
            database: DatabaseReport(samples=sample(value, passed))
            for database, value in self.outside.items()
        }
        if web:
            self._say("web", web)

    def _say(self, name: str, told: Mapping[str, DatabaseReport]) -> None:
        self.store.exchange(
            Report(
                holder=f"life-of-{name}",
                name=name,
                databases=told,
                number=self._number,
            )
        )

    def _work(self) -> None:
        while not self._ended.wait(TICK):
            try:
                self.turn()
            except StoreUnavailable:  # it comes back
                continue


def sample(per_second: float, passed: float) -> tuple[Sample, ...]:
    """Return what was counted at that rate since the last turn, however long ago."""
    amount = Amount(per_second * passed, per_second * passed * 0.004, 0.0)
    return (Sample(0.0, amount, passed),)
