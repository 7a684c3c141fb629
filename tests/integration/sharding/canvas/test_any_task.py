"""What `sharded` does with each feature of a task: carried over, or refused by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery import Celery, signals
from celery.exceptions import Ignore, Reject

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding import Isolate, Sharding, sharded
from celery_sharding.errors import Misconfigured


@pytest.fixture
def app() -> Celery:
    """Give an app whose tasks run where they are called."""
    app = Celery(
        "calls",
        broker="memory://",
        backend="cache+memory://",
        set_as_current=False,
    )
    app.conf.task_always_eager = True
    Sharding(app)
    return app


def noted(app: Celery, **options: Any) -> tuple[Any, list[str]]:
    """Return a base with all of Celery's handlers, and which of them were called."""
    seen: list[str] = []

    def handler(name: str) -> Any:
        return lambda _self, *_, **__: seen.append(name)

    names = ("before_start", "on_success", "on_failure", "on_retry", "after_return")
    base = type("Noted", (app.Task,), {name: handler(name) for name in names})
    return app.task(base=base, bind=True, shared=False, **options), seen


# Carried over


def test_handlers_and_signals_are_called_for_each_item(app: Celery) -> None:
    """As for a message of the task."""
    names: list[str] = []
    declare, seen = noted(app, max_retries=1)

    @declare
    def act(self: Any, item: int) -> int:
        if item == 2:
            raise self.retry(countdown=0)
        return item

    def on_prerun(*, sender: Any, **_: Any) -> None:
        names.append(sender.name)

    signals.task_prerun.connect(on_prerun)
    try:
        result: Any = sharded(act, [1, 2], on_error=Isolate()).delay()
    finally:
        signals.task_prerun.disconnect(on_prerun)
    assert names.count(act.name) == 3
    assert seen == [
        *("before_start", "on_success", "after_return"),
        *("before_start", "on_retry"),
        *("before_start", "on_failure", "after_return"),
    ]
    (error,) = result.errors()
    assert (error.item, error.attempt) == (2, 2)
    assert "Can't retry" in error.message


def test_what_a_task_ignores_has_no_result(app: Celery) -> None:
    """And what it rejects has failed."""

    @app.task(shared=False)
    def act(item: int) -> int:
        if item == 1:
            raise Ignore
        if item == 2:
            raise Reject
        return item

    result: Any = sharded(act, [1, 2, 3], on_error=Isolate()).delay()
    assert [*result.results()] == [3]
    assert [(one.item, one.message) for one in result.errors()] == [
        (2, f"{act.name} raised Reject: there is no message to reject")
    ]


def test_an_error_is_the_tasks_own(app: Celery) -> None:
    """With its type, and a traceback that shows where in the task."""

    @app.task(shared=False)
    def act(item: int) -> float:
        return 1 / item

    result: Any = sharded(act, [0], on_error=Isolate()).delay()
    (error,) = result.errors()
    assert error.type == "ZeroDivisionError"
    assert "return 1 / item" in str(error.traceback)


def test_a_retry_with_other_arguments_is_refused(app: Celery) -> None:
    """The item would be another."""

    @app.task(shared=False, bind=True)
    def act(self: Any, item: int) -> None:
        raise self.retry(args=(item + 1,), countdown=0)

    result: Any = sharded(act, [0], on_error=Isolate()).delay()
    (error,) = result.errors()
    assert "self.retry() with other arguments" in error.message


@pytest.mark.parametrize(
    ("of_app", "of_task", "of_call", "item_timeout"),
    [
        ({}, {}, {}, 300.0),
        ({"task_time_limit": 90}, {}, {}, 90.0),
        ({"task_time_limit": 90}, {"time_limit": 9, "soft_time_limit": 5}, {}, 5.0),
        ({}, {"soft_time_limit": 5}, {"time_limit": 7}, 7.0),
    ],
)
def test_a_time_limit_is_one_of_items(
    app: Celery,
    of_app: dict[str, Any],
    of_task: dict[str, Any],
    of_call: dict[str, Any],
    item_timeout: float,
) -> None:
    """That of the call goes before the task's, and that before the app's."""
    app.conf.update(of_app)

    @app.task(shared=False, **of_task)
    def act(item: int) -> int:
        return item

    called: Any = act.s().set(**of_call)
    options = sharded(called, [1]).kwargs["options"]
    assert options.get("item_timeout", 300.0) == item_timeout
    assert sharded(called, [1], item_timeout=1).kwargs["options"]["item_timeout"] == 1


def test_times_of_the_called_signature_are_the_jobs(app: Celery) -> None:
    """Its message waits, or expires, and goes where it says."""

    @app.task(shared=False)
    def act(item: int) -> int:
        return item

    eta = SYSTEM.now() + timedelta(hours=1)
    options: dict[str, Any] = {
        "eta": eta,
        "expires": 7200,
        "queue": "far",
        "headers": {"a": 1},
    }
    assert sharded(act.s().set(**options), [1]).options == options
    policy = sharded(act, [1]).kwargs["options"]["on_error"]
    assert policy == {"kind": "isolate", "max_failed": 0}


# Refused


def test_what_cannot_hold_is_refused_at_the_call(app: Celery) -> None:
    """By its name."""

    @app.task(shared=False)
    def act(item: int) -> int:
        return item

    @app.task(shared=False, rate_limit="10/m")
    def limited(item: int) -> int:
        return item

    link = act.s()
    with pytest.raises(Misconfigured, match=r"limited has rate_limit='10/m'"):
        sharded(limited.s(), [1])
    for option in ({"link": link}, {"link_error": link}, {"task_id": "a"}):
        with pytest.raises(Misconfigured, match=f"the option '{next(iter(option))}'"):
            sharded(act.s().set(**option), [1])
    with pytest.raises(Misconfigured, match=r"post=.*'queue' cannot hold"):
        sharded(act.s(), [1], post=act.s().set(queue="far"))
    with pytest.raises(
        TypeError, match=r"with an item first: .* takes 1 positional argument"
    ):
        sharded(act.s(2), [1])
    nothing: Any = 3
    with pytest.raises(Misconfigured, match="a task, or its signature, not 3"):
        sharded(nothing, [1])
