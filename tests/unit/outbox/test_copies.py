"""A template is used only if its copy of the first message is that message."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_pecker.brokers.stored_message import Message
from celery_pecker.outbox import hook as capture
from celery_pecker.outbox.bulk import Copies, Row


@pytest.fixture
def task() -> Any:
    """Give a task of an app of this test alone."""
    app = Celery("copies", broker="memory://", set_as_current=False)
    decorate: Any = app.task(name="note", shared=False)

    def note(*args: object, **kwargs: object) -> None: ...

    decorate(note)
    return app.tasks["note"]


def built(task: Any, *args: object) -> Message:
    """Return what Celery builds."""
    with capture.capturing() as kept:
        task.apply_async(args, producer=capture.producer_for(task.app))
    return kept[0]


def test_a_copy_of_the_first_message_is_that_message(task: Any) -> None:
    """And one of another row is what Celery would build for it."""
    first, second = built(task, 1, "a"), built(task, 2, "it's")
    template = Copies.of(task.app, task, first, ((1, "a"), {}))
    assert template is not None
    assert template.message(((1, "a"), {}), first.task_id) == first
    assert template.message(((2, "it's"), {}), second.task_id) == second


def test_where_the_copy_differs_there_is_no_template(task: Any) -> None:
    """For whatever reason: headers that somebody wrote otherwise, a changed body."""
    first = built(task, 1)
    row: Row = ((1,), {})
    for odd in (
        first._replace(headers=first.headers.replace(": ", ":")),
        first._replace(body=first.body.replace(b" ", b"")),
        first._replace(properties=first.properties.replace(", ", ",")),
        first._replace(body=b"no json"),
        first._replace(content_type="application/x-yaml"),
    ):
        assert Copies.of(task.app, task, odd, row) is None
    assert Copies.of(task.app, task, first, ((2,), {})) is None
