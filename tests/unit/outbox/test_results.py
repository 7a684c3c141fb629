"""Results of many tasks are what `task.AsyncResult` makes, and cost less."""

from __future__ import annotations

import copy
from typing import Any

from celery import Celery
from celery.result import AsyncResult

from celery_pecker.outbox.bulk import like


def made() -> tuple[Celery, Any]:
    """Return an app and the result of one of its tasks."""
    app = Celery("results", broker="memory://", backend="cache+memory://")
    task: Any = app.task(name="results.work", shared=False)(_work)
    return app, task.AsyncResult("one")


def _work() -> None:
    """Nobody runs it."""


def test_a_result_differs_in_its_id_alone() -> None:
    """In all that a result has."""
    _, first = made()
    first.ignored = True
    other: Any = like(first)("two")
    assert AsyncResult in type(other).__mro__
    assert other.id == "two"
    assert other == AsyncResult("two", app=first.app)
    others = {key: value for key, value in vars(first).items() if key != "on_ready"}
    assert vars(other) == {**others, "id": "two"}
    assert other.as_tuple()[0] == ("two", None)
    assert copy.copy(other).id == "two"


def test_somebody_may_wait_for_it() -> None:
    """Its promise is there when it is looked at, once."""
    app, first = made()
    other = like(first)("two")
    assert other.on_ready is other.on_ready
    ended: list[Any] = []
    other.on_ready.then(ended.append)
    app.backend.store_result("two", 42, "SUCCESS")
    assert other.get(timeout=30) == 42
    assert ended == [other]


def test_a_class_of_somebodys_own_makes_its_own() -> None:
    """Whatever its constructor does."""

    class Own(AsyncResult[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.mark = "own"

    app, _ = made()
    other = like(Own("one", app=app))("two")
    assert (type(other), other.id, other.mark) == (Own, "two", "own")
