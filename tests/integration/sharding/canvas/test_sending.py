"""The message of a job: sent once its row stands, or there is no job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, chain, group
from celery._state import _task_stack  # type: ignore[attr-defined]
from celery.exceptions import Ignore
from kombu.exceptions import OperationalError, SerializerNotInstalled

from celery_pecker import deadline
from celery_pecker.runs import guard as inheritance
from celery_sharding import (
    ItemNotSerializable,
    ShardedTask,
)
from celery_sharding.errors import Misconfigured
from celery_sharding.ledger import Ledger

Messages = Callable[[], list[dict[str, Any]]]
Rows = Callable[[str], list[tuple[Any, ...]]]

NOTHING_STORED = "select task_id from pecker_jobs"


# The message


def test_a_broker_that_is_away_leaves_no_job(
    app: Celery, task: ShardedTask, rows: Rows
) -> None:
    """A broker that is away leaves no job."""
    app.conf.update(broker_url="redis://127.0.0.1:1/0")
    with pytest.raises(OperationalError):
        task.delay([1, 2])
    assert rows(NOTHING_STORED) == []


def test_a_message_that_cannot_be_built_leaves_no_job(
    task: ShardedTask, rows: Rows
) -> None:
    """A message that cannot be built leaves no job."""
    with pytest.raises(SerializerNotInstalled):
        task.apply_async(([1, 2],), serializer="morse")
    with pytest.raises(ItemNotSerializable, match="links too"):
        task.apply_async(([1, 2],), link=task.si([1], 2j))
    assert rows(NOTHING_STORED) == []


def test_a_job_that_was_begun_meanwhile_is_not_withdrawn(
    app: Celery, task: ShardedTask, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was begun meanwhile is not withdrawn."""

    def lost(*_: Any, task_id: str, **__: Any) -> None:
        assert ledger.plans.begin(task_id, "other:1:a", 15.0) is not None
        message = "the connection broke after the message was sent"
        raise OperationalError(message)

    monkeypatch.setattr(app, "send_task", lost)
    result = task.delay([1, 2])
    assert ledger.reading.job(result.id).stage == "planning"


def test_the_row_knows_what_celery_goes_on_with(
    task: ShardedTask, add: Any, rows: Rows
) -> None:
    """The row knows what celery goes on with."""
    canvas = chain(task.s([1, 2]), add.si(1, 2)).set(link_error=add.si(3))
    canvas.apply_async(priority=4)
    ((told,),) = rows("select continuation from pecker_jobs")
    assert [one["task"] for one in told["chain"]] == ["calls.add"]
    assert told["priority"] == 4
    assert told["root_id"]
    assert "countdown" not in told


def test_a_message_that_is_to_wait_is_not_sent_again_before(
    task: ShardedTask, rows: Rows
) -> None:
    """A message that is to wait is not sent again before."""
    task.apply_async(([1, 2],), countdown=600, expires=900)
    ((ahead, eta, expires),) = rows(
        "select extract(epoch from sent_at - submitted_at),"
        " continuation ->> 'eta', continuation ->> 'expires' from pecker_jobs"
    )
    assert 590 < ahead < 610
    assert eta < expires


def test_a_job_has_no_deadline_of_who_calls_it(
    task: ShardedTask, messages: Messages, rows: Rows
) -> None:
    """The run that calls it may have a second left, and the job takes hours."""
    inheritance.connect()
    slot = {"name": "nightly"}
    with deadline.within(60):
        task.apply_async(([1, 2],), headers={"pecker": slot, "mine": "kept"})
    (message,) = messages()
    assert "pecker_deadline" not in message["headers"]
    assert message["headers"]["pecker"] == slot
    ((told,),) = rows("select continuation -> 'headers' from pecker_jobs")
    assert told == {"mine": "kept"}


def test_a_message_whose_job_is_gone_makes_no_other(
    task: ShardedTask, rows: Rows
) -> None:
    """It was withdrawn, or purged: who called it was told so, or knows how it ended."""
    task.push_request(
        id="gone", called_directly=False, headers={"sharding": "submitted"}
    )
    with pytest.raises(Ignore):
        task.run([1, 2])
    task.pop_request()
    assert rows(NOTHING_STORED) == []


# What Celery forwards: the task before has succeeded


@pytest.fixture
def parent(app: Celery, add: Any) -> Iterator[str]:
    """Let a task have ended, whose tracer goes on; give its id."""
    app.finalize()
    task = app.tasks["calls.add"]
    task.push_request(id="parent", called_directly=False, delivery_info={})
    _task_stack.push(task)
    yield "parent"
    _task_stack.pop()
    task.pop_request()


def test_what_is_forwarded_and_refused_fails_by_itself(
    task: ShardedTask, parent: str, messages: Messages, rows: Rows
) -> None:
    """The worker that gets it raises the reason."""
    task.s().apply_async((7,), parent_id=parent)
    (message,) = messages()
    assert message["headers"]["sharding"] == "refused"
    assert rows(NOTHING_STORED) == []
    args, kwargs, _ = message["body"]
    task.push_request(id="job", called_directly=False, headers={"sharding": "refused"})
    with pytest.raises(Misconfigured, match="allowed are a list"):
        task.run(*args, **kwargs)
    task.pop_request()


def test_what_is_forwarded_and_not_sent_is_the_sweepers(
    app: Celery, task: ShardedTask, parent: str, ledger: Ledger
) -> None:
    """The job stands in the ledger, and nobody is told of an error."""
    app.conf.update(broker_url="redis://127.0.0.1:1/0")
    result = task.s().apply_async(([1, 2],), parent_id=parent)
    assert ledger.reading.job(result.id).stage == "submitted"


def test_what_is_forwarded_without_a_ledger_is_submitted_where_it_arrives(
    app: Celery, task: ShardedTask, parent: str, messages: Messages
) -> None:
    """Its message brings the items, and says that there is no row."""
    app.conf.update(pecker_dsn="postgresql://nobody@127.0.0.1:1/none")
    task.s().apply_async(([1, 2],), parent_id=parent)
    (message,) = messages()
    assert "sharding" not in message["headers"]
    assert message["body"][0] == [[1, 2]]


def test_a_frozen_canvas_runs_in_the_caller_too(task: ShardedTask) -> None:
    """`group.apply` freezes first: items are stored, and read again."""
    result = group(task.s([1, 2]), task.s([3])).apply()
    assert result.get() == [
        {"total": 2, "done": 2, "failed": 0},
        {"total": 1, "done": 1, "failed": 0},
    ]
