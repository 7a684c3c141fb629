"""From a task to its database; never a reason not to run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.kernel import user_code
from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.errors import Misconfigured
from throttle.model import Target
from throttle.route import Route, load


def by_tenant(task: str, args: Any, kwargs: Any, headers: Any) -> object:
    """Answer as a tenant's task would be routed."""
    return kwargs["answer"]


def route(function: Callable[..., Any] | None = by_tenant) -> Route:
    """Return a route to two databases."""
    return Route(function, {"main", "other"})


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        ("main", Target("main")),
        (("other", "acme"), Target("other", "acme")),
        (("other", 7), Target("other", "7")),
        (Target("main", "x"), Target("main", "x")),
        (("main", "Ü" * 300), Target("main", "Ü" * 100)),
        (("main", "a\ud800"), Target("main", "a?")),
        (None, None),
    ],
)
def test_what_a_route_may_answer(answer: object, target: Target | None) -> None:
    """A database, with a tenant if there are any, or nothing."""
    asked = route()
    assert asked.target("t", (), {"answer": answer}, {}) == target
    assert asked.failures == 0


@pytest.mark.parametrize(
    "answer",
    [
        "elsewhere",
        "",
        7,
        ("main",),
        ("main", None),
        ("main", 10**5_000),
        ["main", "x"],
        object(),
    ],
)
def test_nonsense_lets_the_task_through_and_is_counted(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """With a line that says what is allowed."""
    asked = route()
    with caplog.at_level(logging.WARNING, "throttle"):
        assert asked.target("t", (), {"answer": answer}, {}) is None
    assert asked.failures == 1
    assert "no database with a limit (main, other)" in caplog.text


def test_a_failing_route_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And each failure is counted."""
    now = [0.0]
    asked = Route(
        by_tenant,
        {"main"},
        OnceAMinute(logging.getLogger("throttle"), clock=lambda: now[0]),
    )
    with caplog.at_level(logging.WARNING, "throttle"):
        for _ in range(5):
            assert asked.target("t", (), {}, {}) is None
        assert caplog.text.count("the route of t failed: KeyError") == 1
        now[0] = 61.0
        asked.target("t", (), {}, {})
    assert "(4 more since the last line)" in caplog.text
    assert asked.failures == 6


def test_a_tasks_own_option_comes_first() -> None:
    """The route is not even asked."""
    asked = route()
    assert asked.target("t", (), {}, {}, option="main") == Target("main")
    assert route(None).target("t", (), {}, {}) is None
    assert asked.failures == 0


def test_a_dotted_path_is_loaded() -> None:
    """With a colon, or with a dot; a function as it is."""
    called: Any = user_code.call
    assert load("celery_pecker.kernel.user_code:call") is called
    assert load("celery_pecker.kernel.user_code.call") is called
    assert load(by_tenant) is by_tenant
    assert load(None) is None


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere.at:all", "cannot be imported"),
        ("throttle.route:missing", "cannot be imported"),
        ("alone", "cannot be imported"),
        ("throttle.route:PARTS", "cannot be called"),
        (lambda: None, r"must take \(task, args, kwargs, headers\)"),
    ],
)
def test_a_wrong_route_ends_the_start(where: Any, said: str) -> None:
    """With one line that says why."""
    with pytest.raises(Misconfigured, match=said):
        load(where)
