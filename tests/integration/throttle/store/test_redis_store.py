"""Processes meet in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from throttle.model import (
    Amount,
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Holding,
    Report,
    Sample,
    Seen,
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
    told = DatabaseReport(samples=samples, holding=holding)
    return Report(
        holder=holder, name=f"w-{holder}", databases={"main": told}, number=number
    )


def main(answer: ExchangeAnswer) -> Seen:
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


def test_a_late_report_moves_no_counts(store: RedisStore, time: Time) -> None:
    """They count for the time in which they were counted, not that of the report."""
    store.exchange(report("a", Sample(1.3, FIVE), number=1))
    seen = main(store.exchange(report("b")))
    assert seen.traffic[Estimator.FAST].operations == 0
    assert seen.traffic[Estimator.WEIGHTED].operations == 0.8 * 500
    time.now += 1
    seen = main(store.exchange(report("b")))
    assert seen.traffic[Estimator.WEIGHTED].operations == 0.15 * 500


def test_what_is_older_than_all_windows_is_dropped(store: RedisStore) -> None:
    """No window is made that nobody reads."""
    store.exchange(report("a", Sample(11.0, FIVE), number=1))
    with redis.Redis.from_url(store.url) as client:
        assert not [key for key in client.scan_iter() if key[-4:].isdigit()]


def test_a_report_told_again_counts_once(store: RedisStore, time: Time) -> None:
    """By its number; the next number counts.

    One that was long on its way, on a connection that was given up, does not make the
    last one new.
    """
    for number in (1, 1, 2, 1, 2):
        store.exchange(report("a", Sample(0.0, FIVE), number=number))
    time.now += 1
    seen = main(store.exchange(report("b")))
    assert seen.traffic[Estimator.WEIGHTED].operations == 0.8 * 1000


def test_a_clock_that_is_stepped_back_counts_no_second_twice(
    store: RedisStore, time: Time
) -> None:
    """The store's time goes on from where it was."""
    for number in range(1, 61):
        store.exchange(report("a", Sample(0.0, FIVE), number=number))
        time.now += 0.1
    before = store.exchange(report("b")).at
    time.now -= 4
    for number in range(61, 91):
        answer = store.exchange(report("a", Sample(0.0, FIVE), number=number))
        assert answer.at >= before
        for traffic in main(answer).traffic.values():
            assert traffic.operations <= 5000 * 1.001
        time.now += 0.1


def test_nothing_outlives_the_clock_that_it_is_told_by(
    store: RedisStore, redis_url: str
) -> None:
    """Six seconds of a lowered limit could become an hour.

    After a silence a clock would forget by how much it was stepped back.
    """
    store.lower("main", 0.5, "slow", 6)
    store.elect("main", "a", 3)
    store.exchange(report("a", Sample(0.0, FIVE), want=1, number=1))
    with redis.Redis.from_url(redis_url) as client:
        lives = {key: client.pttl(key) for key in client.scan_iter()}
    assert len(lives) == 8
    assert max(lives, key=lambda key: lives[key]) == b"{throttle}:1:clock"


def test_redis_own_clock_is_taken(redis_url: str) -> None:
    """Without a clock of the test's, `at` is that of Redis."""
    store = RedisStore(redis_url, timeout=5)
    with redis.Redis.from_url(redis_url) as client:
        seconds, micros = client.time()
        answer = store.exchange(report())
        later, more = client.time()
    store.close()
    assert seconds + micros / 1e6 <= answer.at <= later + more / 1e6


def test_the_limit_is_lowered_for_a_while(store: RedisStore, time: Time) -> None:
    """Shares follow, and people see why."""
    store.exchange(report(want=1))
    time.now += 0.5
    store.lower("main", 0.5, "replication lag 12 s", 2)
    seen = main(store.exchange(report(want=1)))
    assert (seen.factor, seen.share) == (0.5, 0.5)
    assert store.look()["main"].signal == "replication lag 12 s"
    time.now += 0.5
    store.exchange(report(want=1))
    time.now += 0.5
    store.exchange(report(want=1))
    time.now += 0.5
    store.exchange(report(want=1))
    time.now += 0.5
    seen = main(store.exchange(report(want=1)))
    assert (seen.factor, seen.share) == (1, 1)
    assert store.look()["main"].signal == ""


def test_a_person_sets_a_limit_for_a_while(store: RedisStore, time: Time) -> None:
    """It is in all workers' shares, people see who set it, and it ends by itself."""

    def ask(seconds: float) -> Seen:
        until = time.now + seconds
        while True:
            time.now += 0.5
            seen = main(store.exchange(report(want=3)))
            if time.now >= until:
                return seen

    store.exchange(report(want=3))
    ask(0.5)
    store.adjust("main", 2.0, "10000/s, set by bo", 60)
    assert (ask(0.5).factor, ask(0.5).share) == (2.0, 2.0)
    assert store.look()["main"].signal == "10000/s, set by bo"
    store.lower("main", 0.25, "lag", 5)
    assert (ask(0.5).factor, ask(0.5).share) == (0.5, 0.5)
    assert store.look()["main"].signal == "lag; 10000/s, set by bo"
    assert ask(6.0).factor == 2.0
    assert (ask(60.0).factor, ask(0.5).share) == (1.0, 1.0)
    assert store.look()["main"].signal == ""


def test_one_watches_until_it_is_silent(store: RedisStore, time: Time) -> None:
    """The one who watches goes on; another takes over when it is gone."""
    assert store.elect("main", "a", 2)
    assert not store.elect("main", "b", 2)
    assert store.elect("other", "b", 2)
    time.now += 1.5
    assert store.elect("main", "a", 2)
    time.now += 1.5
    assert not store.elect("main", "b", 2)
    time.now += 1
    assert store.elect("main", "b", 2)
    assert not store.elect("main", "a", 2)


def test_a_holder_that_says_so_gives_its_share_back(
    store: RedisStore, time: Time
) -> None:
    """At once: it is asked for by others."""
    store.exchange(report("a", want=1))
    time.now += 0.5
    store.exchange(report("a", want=1))
    assert main(store.exchange(report("b", want=1))).share == 0
    store.exchange(report("a"))
    assert main(store.exchange(report("b", want=1))).share == 1


def test_large_runs_start_one_after_another(store: RedisStore, time: Time) -> None:
    """At the pace at which the limit pays for them, whoever asks first."""

    def ask(holder: str) -> bool | None:
        holding = Holding(want=1.0, limit=LIMIT, turn=0.4)
        told = {"main": DatabaseReport(holding=holding)}
        answer = store.exchange(Report(holder=holder, name=holder, databases=told))
        return main(answer).turn

    ask("a")
    time.now += 0.45  # nobody knew who there was
    assert [ask("a"), ask("b"), ask("a")] == [True, False, False]
    time.now += 0.29
    assert [ask("b"), ask("a")] == [False, False]
    time.now += 0.02
    assert [ask("b"), ask("a"), ask("b")] == [True, False, False]
    time.now += 0.4
    store.exchange(report("a", Sample(0.0, Amount(5001)), number=1, want=1))
    assert ask("b") is False  # so much was done within the last second
    later = []
    for _ in range(12):
        time.now += 0.1
        later.append(ask("b"))
    assert later[:8] == [False] * 8
    assert any(later[8:])


def test_two_systems_on_one_redis_do_not_meet(
    store: RedisStore, redis_url: str, time: Time
) -> None:
    """They have a prefix each."""
    store.exchange(report("a", Sample(0.0, FIVE), number=1))
    other = RedisStore(redis_url, prefix="theirs", now=time, timeout=5)
    assert other.look() == {}
    assert main(other.exchange(report("a"))).traffic[Estimator.FAST] == Amount()
    other.close()


def test_what_tasks_cost_is_kept_for_a_while(store: RedisStore, redis_url: str) -> None:
    """By database; a name may be anything."""
    assert store.recall("a:b%3A") == ""
    store.keep("a:b%3A", '{"ü": 1}', 60.0)
    assert store.recall("a:b%3A") == '{"ü": 1}'
    assert store.recall("main") == ""
    with redis.Redis.from_url(redis_url) as client:
        [key] = client.keys("*:costs")
        assert 0 < client.pttl(key) <= 60_000


def test_windows_expire(store: RedisStore) -> None:
    """After 10 s, and nothing of ours stays for ever."""
    store.exchange(report("a", Sample(0.0, FIVE), want=1, number=1))
    store.lower("main", 0.5, "slow", 2)
    store.elect("main", "a", 2)
    with redis.Redis.from_url(store.url) as client:
        left = {key.decode(): client.pttl(key) for key in client.scan_iter()}
    assert len(left) == 8
    assert all(0 < one <= 7_200_000 for one in left.values())
    windows = [one for key, one in left.items() if key[-4:].isdigit()]
    assert len(windows) == 1
    assert windows[0] <= 10_000
