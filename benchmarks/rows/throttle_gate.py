"""What it takes to ask whether a task may start: µs of the asker, answer by answer.

Ours asks nobody: the dispatcher's gate and the worker's accounts go by what the
exchange heard last. Beside them what is asked elsewhere for the same: `limits`, whose
state is in Redis (or in this process alone), and the least that any limiter in Redis
takes, one script that does nothing. In turns; each question is timed by itself, less
what the timing takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import redis
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)

from benchmarks.cputime import no_collection
from benchmarks.results import Sample
from benchmarks.run import Run
from throttle.admission import Accounts
from throttle.exchange import Snapshot
from throttle.gate import Gate
from throttle.model import (
    Amount,
    Estimator,
    ExchangeAnswer,
    Limit,
    Reading,
    Seen,
    Target,
)
from throttle.settings import Settings

ROW = "throttle_gate"
TURN = 200
"""Questions before it is the next one's turn."""
PLENTY = 10_000_000
KEY = "throttle-benchmark"
KINDS: dict[str, Callable[[Any], RateLimiter]] = {
    "fixed window": FixedWindowRateLimiter,
    "moving window": MovingWindowRateLimiter,
    "sliding window": SlidingWindowCounterRateLimiter,
}
MOVING = 1_000
"""A moving window keeps an entry for each hit: as many as a busy second has."""
Ask = Callable[[int], object]
Asked = tuple[str, Ask, Ask]
"""Who is asked, how, and what comes after it and is not timed."""


def run(run: Run) -> None:
    """Measure all of them in turns: one trial."""
    run.trial(ROW, "who asks", run.plan.questions * 1.2e-3, partial(measure, run))


def measure(run: Run) -> Sample:
    """Return what a question takes, by who is asked."""
    with ExitStack() as stack:
        asked = list(_asked(stack, run.servers.redis))
        took: dict[str, list[int]] = {name: [] for name, *_ in asked}
        for _, ask, then in asked:
            _timed(ask, then, TURN)
        for _ in range(max(run.plan.questions // TURN, 2)):
            with no_collection():
                for name, ask, then in asked:
                    took[name] += _timed(ask, then, TURN)
            run.tell()
    empty = float(np.median(_timed(_nothing, _nothing, 10_000)))
    return {
        "questions": len(took["gate: yes"]),
        "us": {name: _spread(np.array(one) - empty) for name, one in took.items()},
    }


def _spread(nanoseconds: np.ndarray) -> dict[str, float]:
    p50, p99 = np.percentile(nanoseconds, (50, 99)) / 1e3
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2)}


def _nothing(_: int) -> None:
    pass


def _timed(ask: Ask, then: Ask, times: int) -> list[int]:
    clock, took = time.perf_counter_ns, []
    for nth in range(times):
        began = clock()
        ask(nth)
        took.append(clock() - began)
        then(nth)
    return took


class _Known:
    """An exchange that has just heard."""

    def __init__(self, answer: ExchangeAnswer) -> None:
        self._answer = answer
        self.hear()

    def hear(self) -> None:
        self.snapshot = Snapshot(self._answer, time.monotonic(), away=False)

    def wait(self, timeout: float) -> bool:
        return timeout >= 0


def _asked(stack: ExitStack, url: str) -> Iterator[Asked]:
    yield from _gate("gate: yes", traffic=0.0)
    yield from _gate("gate: no", traffic=2.0 * PLENTY)
    yield from _worker("worker: yes", PLENTY)
    yield from _worker("worker: no", 1)
    client = stack.enter_context(redis.Redis.from_url(url))
    nothing = client.script_load("return 1")
    yield (
        "a script that does nothing",
        lambda _: client.evalsha(nothing, 1, KEY),
        _nothing,
    )
    item = RateLimitItemPerSecond(MOVING)
    for where, storage in (("Redis", RedisStorage(url)), ("memory", MemoryStorage())):
        stack.callback(storage.reset)
        for kind, limiter in KINDS.items():
            hit = _hit(limiter(storage), item, kind)
            yield f"limits, {kind} in {where}", hit, _nothing


def _hit(limiter: RateLimiter, item: RateLimitItemPerSecond, kind: str) -> Ask:
    return lambda _: limiter.hit(item, KEY, kind)


def _gate(name: str, traffic: float) -> Iterator[Asked]:
    both = dict.fromkeys(Estimator, Amount(traffic))
    known = _Known(
        ExchangeAnswer(at=0, databases={"main": Seen(traffic=both, outside=both)})
    )
    settings = Settings.read(
        {"throttle_redis_url": "redis://nowhere", "throttle_limits": {"main": PLENTY}}
    )
    gate = Gate(settings, exchange=known)

    def then(nth: int) -> None:
        if nth % 50 == 0:  # as in life: an answer and a cycle now and then
            known.hear()
            gate.cycle()

    yield name, lambda _: gate.admit("main"), then


def _worker(name: str, limit: float) -> Iterator[Asked]:
    accounts = Accounts({"main": Limit(database="main", operations=limit)})
    target, task = Target("main", "acme"), "orders.sync"
    nobody = dict.fromkeys(Estimator, Amount())
    seen = Seen(traffic=nobody, outside=nobody, share=1.0, holders=1)
    answer = ExchangeAnswer(at=0, databases={"main": seen})

    def then(nth: int) -> None:
        accounts.over((), [nth])
        if nth % 50 == 0:
            now = time.monotonic()
            accounts.observe(Reading({}), now)
            accounts.update(answer, now)

    yield name, lambda nth: accounts.admit(target, task, nth), then
