"""How soon a step in traffic is seen, by either estimator.

A database that nobody uses gets traffic at once and steadily. Four processes count it
and report every 100 ms, each in its own phase, as they do in life. It is seen when the
estimator says 90 % of it: asked of Redis all the time, and as a fifth process knows it
by its own exchange. Each step has keys of its own and begins at random.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from benchmarks.results import Sample
from benchmarks.run import Run
from throttle.exchange import Exchanger
from throttle.model import (
    Amount,
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Reading,
    Report,
)
from throttle.settings import Settings
from throttle.store.redis import RedisStore

ROW = "throttle_step"
SOURCES = 4
RATE = 5_000.0
"""Operations a second, of all of them."""
SEEN = 0.9
GLANCE = 0.004
"""Seconds between two looks."""
AT_ONCE = 3
"""Steps side by side: each waits most of the time."""
GIVEN_UP = 10.0
PLACES = ("in Redis", "in a process")


def run(run: Run) -> None:
    """Measure so many steps: one trial."""
    lasts = run.plan.steps * 5.0 / AT_ONCE
    run.trial(ROW, f"{run.plan.steps} steps", lasts, partial(measure, run))


def measure(run: Run) -> Sample:
    """Return how long after the step it was seen."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pending = [
            pool.submit(_step, run.servers.redis, random.uniform(0.5, 1.5))
            for _ in range(run.plan.steps)
        ]
        found = []
        for one in pending:
            found.append(one.result())
            run.tell()
    return {
        "steps": len(found),
        "ms": {
            place: {
                str(estimator): _spread([one[place, estimator] for one in found])
                for estimator in Estimator
            }
            for place in PLACES
        },
    }


def _spread(seconds: list[float]) -> dict[str, Any]:
    values = np.array(seconds) * 1e3
    names = ("least", "p50", "p95", "p99", "most")
    at = np.percentile(values, (0, 50, 95, 99, 100))
    spread = {name: round(float(one), 1) for name, one in zip(names, at, strict=True)}
    return {**spread, "all": sorted(round(float(one)) for one in values)}


class _Steady:
    """A meter that counts evenly since the step, whenever it is read."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._told = 0.0
        self.since: float | None = None

    def read(self) -> Reading:
        """Return what was done since it was read last."""
        if self.since is None:
            return Reading({})
        done = max(time.monotonic() - self.since, 0.0) * self._rate
        new, self._told = done - self._told, done
        return Reading({"main": Amount(new)})


def _step(url: str, before: float) -> dict[tuple[str, Estimator], float]:
    """Return the seconds until it was seen, by place and estimator."""
    prefix = f"throttle-step-{random.randrange(10**12)}"
    settings = Settings.read(
        {
            "throttle_redis_url": url,
            "throttle_limits": {"main": 10_000},
            "throttle_prefix": prefix,
        }
    )
    stores = [RedisStore(url, prefix=prefix, timeout=1.0) for _ in range(SOURCES + 2)]
    meters = [_Steady(RATE / SOURCES) for _ in range(SOURCES)]
    exchanges = [
        Exchanger(settings, store, meter.read, name="benchmark")
        for store, meter in zip(stores, [*meters, _Steady(0.0)], strict=False)
    ]
    seen: dict[tuple[str, Estimator], float] = {}
    wait = threading.Event().wait
    try:
        for one in exchanges:
            wait(random.uniform(0.0, 0.1))
            one.start()
        wait(before)
        began = time.monotonic()
        for meter in meters:
            meter.since = began
        while len(seen) < len(PLACES) * len(Estimator):
            answer = stores[-1].exchange(ASKING)
            after = time.monotonic() - began
            _note(seen, "in Redis", answer, after)
            _note(seen, "in a process", exchanges[-1].snapshot.answer, after)
            if after > GIVEN_UP:
                message = f"not seen within {GIVEN_UP:g} s: {seen}"
                raise TimeoutError(message)
            wait(GLANCE)
    finally:
        for one in exchanges:
            one.stop(1.0)
        for store in stores:
            store.close()
    return seen


def _note(
    seen: dict[Any, float], place: str, answer: ExchangeAnswer | None, at: float
) -> None:
    if answer is not None:
        for estimator, amount in answer.databases["main"].traffic.items():
            if amount.operations >= SEEN * RATE:
                seen.setdefault((place, estimator), at)


ASKING = Report(
    holder="benchmark", name="benchmark", databases={"main": DatabaseReport()}
)
