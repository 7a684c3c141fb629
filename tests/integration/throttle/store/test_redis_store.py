"""Processes meet in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from throttle.model import (
    Amount,
    Answer,
    Estimator,
    Holding,
    Report,
    Sample,
    Seen,
    Told,
)
from throttle.store.redis import RedisStore

FIVE = Amount(operations=500.0, seconds=0.5, rows=1000.0)
LIMIT = Amount(operations=5000.0)


class Time:
    """What the store takes for Redis' clock."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        """Return seconds since 1970."""
        return self.now


@pytest.fixture
def time() -> Time:
    """Give a clock that only the test moves."""
    return Time()


@pytest.fixture
def store(redis_url: str, time: Time) -> Iterator[RedisStore]:
    """Give a store of the test's own, whose clock is the test's."""
    store = RedisStore(redis_url, now=time, timeout=5)
    yield store
    store.close()


def report(
    holder: str = "a", *samples: Sample, want: float | None = None, number: int = 0
) -> Report:
    """Return what a process says of the database `main`."""
    holding = None if want is None else Holding(want=want, limit=LIMIT)
    told = Told(samples=samples, holding=holding)
    return Report(
        holder=holder, name=f"w-{holder}", databases={"main": told}, number=number
    )


def main(answer: Answer) -> Seen:
    """Return what is said of it."""
    return answer.databases["main"]


def test_what_one_counts_all_see(store: RedisStore, time: Time) -> None:
    """A second's counts are that second's traffic, told by both estimators."""
    store.exchange(report("a", Sample(0.0, FIVE), number=1))
    time.now += 0.2
    seen = main(store.exchange(report("b")))
    assert seen.traffic[Estimator.FAST] == pytest.approx(
        (500 / 0.3, 0.5 / 0.3, 1e3 / 0.3)
    )
    assert seen.traffic[Estimator.WEIGHTED] == Amount()
    time.now += 1
    seen = main(store.exchange(report("b")))
    assert seen.traffic[Estimator.WEIGHTED].operations == 0.8 * 500


def test_a_holder_gets_what_is_left_of_the_limit(store: RedisStore, time: Time) -> None:
    """First nothing: there may be holders that the store has forgotten."""
    assert main(store.exchange(report(want=1))).share == 0
    time.now += 0.4
    assert main(store.exchange(report(want=1))).share == 1


def test_a_look_changes_nothing(store: RedisStore, time: Time) -> None:
    """It shows what holders said of themselves, for a second."""
    store.exchange(report(want=0.5))
    time.now += 0.5
    store.exchange(report(want=0.5))
    for _ in range(2):
        view = store.look()["main"]
        assert view.holders["a"].name == "w-a"
        assert view.holders["a"].share == 1
        assert view.holders["a"].holding == Holding(want=0.5, limit=LIMIT)
        assert view.seen.holders == 1
    time.now += 1
    assert store.look()["main"].holders == {}
