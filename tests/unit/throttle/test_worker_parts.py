"""The parts of the hook that need no worker."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery import Celery, signals
from celery.app.trace import build_tracer
from celery.worker import state as _state

import throttle
from celery_pecker.worker import RedisGuardStep
from throttle.admission import Accounts
from throttle.errors import Misconfigured
from throttle.meter import meter
from throttle.model import Target
from throttle.worker import ThrottleStep, pool, starting
from throttle.worker.brokers.broker import Held
from throttle.worker.held_tasks import Pace, RevokedOrExpired
from throttle.worker.pool import Running

state: Any = _state


class Request:
    """What these parts look at."""

    def __init__(self, name: str, task: str = "limited", **given: Any) -> None:
        self.id = name
        self.task = SimpleNamespace(name=task)
        self.body = b"x"
        self.time_start: float | None = None
        self.expires: datetime | None = given.get("expires")
        self.dead = False
        self.delivery_info: dict[str, Any] = {"priority": None}
        self.request_dict: dict[str, Any] = {"delivery_info": self.delivery_info}

    def revoked(self) -> bool:
        """Say whether it is dead."""
        return self.dead


def held(name: str, **given: Any) -> Held:
    """Return a held request."""
    return Held(request=Request(name, **given), since=0.0, target=Target("main"))


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Leave Celery's lists as they were."""
    yield
    state.requests.clear()
    state.revoked.clear()


# running


class Ends:
    """Accounts that write down what they hear."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []

    def over(self, ended: Collection[int], unstarted: Collection[int]) -> None:
        """These ran, those did not."""
        self.said += [("ended", run) for run in ended]
        self.said += [("forget", run) for run in unstarted]


def test_it_is_known_which_runs_are_over_and_which_never_started() -> None:
    """Celery strikes a request from its list, whatever became of it."""
    ends = Ends()
    watched = Running(cast("Accounts", ends))
    requests = {run: Request(f"t{run}") for run in (1, 2, 3)}
    for run, request in requests.items():
        state.requests[request.id] = request
        watched.add(run, request)
    requests[1].time_start = 5.0
    del state.requests["t1"], state.requests["t2"]
    watched.collect()
    watched.collect()
    assert ends.said == [("ended", 1), ("forget", 2)]
    assert len(watched) == 1


def test_what_inspect_shows_of_a_request_is_celerys_own() -> None:
    """The process of the pool is told which run it is; nobody else sees that."""
    request = Request("t")
    Running(cast("Accounts", Ends())).add(7, request)
    assert request.delivery_info == {"priority": None}
    assert request.request_dict["delivery_info"] == {"priority": None, pool.RUN: 7}


def test_a_retry_under_the_same_id_goes_on() -> None:
    """The first is over, the second is watched."""
    ends = Ends()
    watched = Running(cast("Accounts", ends))
    first, second = Request("t"), Request("t")
    watched.add(1, first)
    state.requests["t"] = second
    watched.add(2, second)
    watched.collect()
    assert ends.said == [("forget", 1)]
    assert len(watched) == 1


# revoked or expired


class Time:
    """A monotonic clock that stands still, or jumps at each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        """Return the time."""
        self.now += self.step
        return self.now


def hours(count: float) -> datetime:
    """Return an instant so many hours from now."""
    return datetime.now(UTC) + timedelta(hours=count)  # noqa: TID251 — as `expires` is


def test_only_what_is_due_is_looked_at() -> None:
    """One has expired, one will, one never does."""
    left: list[str] = []
    ended = RevokedOrExpired(list, lambda one: left.append(one.request.id), Time())
    all_of_them = [
        held("past", expires=hours(-1)),
        held("later", expires=hours(1)),
        held("never"),
    ]
    for one in all_of_them:
        one.request.dead = True
        ended.add(one)
    assert ended.sweep(1.0, 3)
    assert left == ["past"]


def test_a_revocation_is_looked_for_once() -> None:
    """All that is held is asked when something was revoked, and only then."""
    asked: list[int] = []
    one = held("t")

    def everything() -> list[Held]:
        asked.append(1)
        return [one]

    left: list[Held] = []
    ended = RevokedOrExpired(everything, left.append, Time())
    assert ended.sweep(1.0, 1)
    state.revoked.add("t")
    one.request.dead = True
    assert ended.sweep(1.0, 1)
    assert ended.sweep(1.0, 1)
    assert len(asked) == 1
    assert left == [one]


def test_revocations_are_seen_when_celery_forgets_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows of 50,000 at most: then their number stays the same."""
    monkeypatch.setattr(state.revoked, "maxlen", 3)
    state.revoked.update(["a", "b", "c"])
    time = Time()
    asked: list[int] = []
    one = held("t")

    def everything() -> list[Held]:
        asked.append(1)
        return [one]

    left: list[Held] = []
    ended = RevokedOrExpired(everything, left.append, time)
    assert ended.sweep(9.0, 1)
    state.revoked.add("t")
    one.request.dead = True
    assert len(state.revoked) == 3
    assert ended.sweep(9.0, 1)
    assert len(asked) == 1
    time.now += 1.0
    assert ended.sweep(9.0, 1)
    assert left == [one]


def test_many_dead_take_several_turns() -> None:
    """Each writes a result: the loop goes on with other things in between."""
    left: list[Held] = []
    ended = RevokedOrExpired(list, left.append, Time(step=1.0))
    all_of_them = [held(f"t{number}", expires=hours(-1)) for number in range(3)]
    for one in all_of_them:
        one.request.dead = True
        ended.add(one)
    turns = 1
    while not ended.sweep(0.0, 3):
        turns += 1
    assert turns > 2
    assert len(left) == 3


def test_what_left_before_it_expired_is_not_kept() -> None:
    """An expiry in a year is no reason to remember a task for a year."""
    ended = RevokedOrExpired(list, lambda _: None, Time())
    for number in range(3000):
        ended.add(held(f"t{number}", expires=hours(9000)))
    assert ended.sweep(1.0, 0)
    assert len(ended._expiries) == 0


# pace


class Bucket:
    """Celery's, with the tokens that a test puts in."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def expected_time(self, tokens: int) -> float:
        """Return the seconds until there are so many."""
        return 0.0 if self.tokens >= tokens else 1.0

    def can_consume(self, tokens: int) -> bool:
        """Take them, if they are there."""
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True


def pace(bucket: Bucket | None, *, disabled: bool = False) -> Pace:
    """Return one with that bucket."""
    return Pace(
        SimpleNamespace(disable_rate_limits=disabled, task_buckets={"limited": bucket})
    )


def test_each_leaves_with_a_token_of_its_own() -> None:
    """In the order they came, as many as there are tokens."""
    bucket = Bucket(0)
    line = pace(bucket)
    first, second, third = held("1"), held("2"), held("3")
    for one in (first, second, third):
        assert line.limits(one)
        line.add(one)
    bucket.tokens = 2
    assert list(line.due(lambda _: True)) == [first, second]
    assert bucket.tokens == 0
    assert list(line) == [third]
    assert line.count("main") == 1
    assert line.remove(third)
    assert not line.remove(third)
    assert "limited" not in line.waiting


def test_a_token_is_kept_if_the_database_says_no() -> None:
    """Otherwise a shut database would eat the rate of a task."""
    bucket = Bucket(1)
    line = pace(bucket)
    line.add(held("1"))
    assert list(line.due(lambda _: False)) == []
    assert bucket.tokens == 1


def test_without_a_rate_limit_nothing_waits_here() -> None:
    """None, lifted meanwhile, or switched off for the worker."""
    assert not pace(None).limits(held("1"))
    assert not pace(Bucket(0), disabled=True).limits(held("1"))
    line = pace(Bucket(0))
    line.add(held("1"))
    line._consumer.task_buckets["limited"] = None
    assert len(list(line.due(lambda _: True))) == 1


# starting


def test_a_package_of_the_same_name_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which of the two is imported depends on the path; a folder alone is none."""
    other = tmp_path / "other"
    (other / "throttle").mkdir(parents=True)
    (other / "throttle" / "__init__.py").touch()
    empty = tmp_path / "empty"
    (empty / "throttle").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(empty), str(other)])
    starting.warn_of_namesakes()
    [line] = [one.message for one in caplog.records if "another package" in one.message]
    assert str(other) in line


def test_throttle_refuses_settings_that_there_are_not() -> None:
    """A slip of the pen is seen where it is made."""
    with pytest.raises(Misconfigured, match="no setting 'limit'"):
        throttle.Throttle(Celery(set_as_current=False), limit={"main": 1})


def test_throttle_gives_an_app_its_step_and_its_settings() -> None:
    """Also a worker that no command starts has the gate; the rest is configuration."""
    app = Celery("given", set_as_current=False)
    made = throttle.Throttle(app, limits={"main": 5}, redis_url="redis://here/1")
    app.conf.throttle_estimator = "fast"
    assert app.conf.throttle_limits == {"main": 5}
    assert made.settings.limits["main"].operations == 5
    assert made.settings.estimator == "fast"
    assert ThrottleStep in app.steps["consumer"]
    assert RedisGuardStep in app.steps["worker"]


def test_only_public_names_are_there() -> None:
    """They are loaded when they are asked for."""
    with pytest.raises(AttributeError, match="nothing"):
        throttle.nothing  # noqa: B018
    assert {"Throttle", "Gate", "instrument", "report"} <= set(dir(throttle))


# pool


def whose() -> int:
    """Return the run that pays for what is done now; 0: nobody."""
    opened = meter.local.thread.opened
    return opened.run if opened else 0


def tasks() -> tuple[Any, list[int]]:
    """Return an app with a task that applies another, and whose run each was."""
    app = Celery("counted", set_as_current=False, broker="memory://")
    counted: list[int] = []

    @app.task(name="inner", shared=False)
    def inner() -> None:
        counted.append(whose())

    @app.task(name="outer", shared=False)
    def outer(fails: bool = False) -> None:
        inner.apply()
        counted.append(whose())
        if fails:
            raise ValueError

    def update_strategies() -> None:
        for name, task in app.tasks.items():
            task.__trace__ = build_tracer(name, task, app=app)

    consumer = SimpleNamespace(app=app, update_strategies=update_strategies)
    pool.counted(consumer)
    return consumer, counted


def test_only_runs_that_were_let_in_are_counted() -> None:
    """What no route names leaves no run, nor what a run applies within itself."""
    consumer, counted = tasks()
    outer = consumer.app.tasks["outer"]
    for _ in range(2):  # Celery makes all tracers anew at each connection
        consumer.update_strategies()
        for info in ({"routing_key": "q"}, {pool.RUN: 7}, None):
            for fails in (False, True):
                request = {"delivery_info": info, "ignore_result": True}
                outer.__trace__("id", (fails,), {}, request)
                counted.append(whose())
    assert counted == 2 * (2 * [0, 0, 0] + 2 * [7, 7, 0] + 2 * [0, 0, 0])


def test_no_signal_is_sent_for_what_no_route_names() -> None:
    """Celery's signals around a task cost more than all else in a no-op's way."""
    before = (len(signals.task_prerun.receivers), len(signals.task_postrun.receivers))
    tasks()[0].update_strategies()
    after = (len(signals.task_prerun.receivers), len(signals.task_postrun.receivers))
    assert after == before


def test_requests_that_are_over_are_let_go_of_as_others_come() -> None:
    """None is kept until the next reading: that would cost full collections."""
    ends = Ends()
    watched = Running(cast("Accounts", ends))
    for run in range(1, 101):
        request = Request(f"t{run}")
        request.time_start = 1.0
        state.requests[request.id] = request
        watched.add(run, request)
        if run % 10 != 0:  # one of ten takes long
            del state.requests[request.id]
    assert len(watched) <= 25
    watched.collect()
    assert sorted(ends.said) == sorted(
        ("ended", run) for run in range(1, 101) if run % 10
    )
