"""A call is a row before its message is sent, and its items are stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature

from celery_sharding import (
    KeyRange,
    Retry,
    ShardedResult,
    ShardedTask,
    Sharding,
    layers,
    sharded,
)
from celery_sharding.codec import decode
from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK
from celery_sharding.ledger import Ledger

Messages = Callable[[], list[dict[str, Any]]]
Rows = Callable[[str], list[tuple[Any, ...]]]

BIG = [f"row {number:05}" for number in range(1_000)]
"""Items that would be seen in a message."""
NOTHING_STORED = "select task_id from pecker_jobs"


def stored_items(ledger: Ledger, args: list[Any]) -> Any:
    """Return what is stored for the first argument of a message."""
    return decode(ledger.submissions.load(args[0]["__sharding_items__"]))


# Items stay out of messages


def test_items_of_a_call_are_stored_and_named_in_its_message(
    task: ShardedTask, ledger: Ledger, messages: Messages
) -> None:
    """Items of a call are stored and named in its message."""
    result = task.delay(BIG)
    assert isinstance(result, ShardedResult)
    (message,) = messages()
    assert message["headers"]["id"] == result.id
    assert message["size"] < 2_000
    args, _, _ = message["body"]
    assert stored_items(ledger, args) == {MARK: [BIG]}
    row = ledger.reading.job(result.id)
    assert row.task == "calls.rows"
    assert row.stage == "submitted"


@pytest.mark.parametrize(
    ("given", "stands"),
    [
        ([[1, 2], [3]], [[1, 2], [3]]),
        ((1, 2), [[1, 2]]),
        ([(1, 2), (3, 4)], [[[1, 2], [3, 4]]]),
        (range(3), [[0, 1, 2]]),
        (iter("ab"), [["a", "b"]]),
        (layers.flat([[1, 2], [3]]), [[[1, 2], [3]]]),
        ([], [[]]),
    ],
    ids=["layers", "tuple", "rows", "range", "iterator", "flat", "nothing"],
)
def test_whatever_holds_items_is_stored_layer_by_layer(
    task: ShardedTask, ledger: Ledger, messages: Messages, given: Any, stands: Any
) -> None:
    """Whatever holds items is stored layer by layer."""
    task.delay(given)
    args, _, _ = messages()[0]["body"]
    assert stored_items(ledger, args) == {MARK: stands}


def test_a_source_travels_as_what_names_it(
    task: ShardedTask, messages: Messages, rows: Rows
) -> None:
    """A source travels as what names it: the row has it, beside the arguments."""
    task.delay(KeyRange(1, 1_000_000))
    args, _, _ = messages()[0]["body"]
    assert args == [{"__sharding_source__": "KeyRange(1, 1000000)"}]
    ((call,),) = rows("select call from pecker_jobs")
    assert decode(call)["sources"] == [
        [-1, {"celery_sharding.source": "keys", "first": 1, "last": 1_000_000}]
    ]
    assert rows("select ref from pecker_inputs") == []


def canvases(task: ShardedTask, add: Any) -> Iterator[tuple[str, Any]]:
    """Give canvases with items in them, by where they stand."""
    yield "first of a chain", chain(task.s(BIG), add.si(1, 2))
    yield "last of a chain", chain(add.s(1, 2), task.si(BIG))
    yield "middle of a chain", chain(add.s(1, 2), task.si(BIG), add.si(1))
    yield "group", group(task.s(BIG), add.s(1, 2))
    yield "header of a chord", chord([task.s(BIG), add.s(1, 2)], add.si(1))
    yield "body of a chord", chord([add.s(1, 2), add.s(1, 3)], task.si(BIG))
    yield "chain in a group", group(chain(add.s(1, 2), task.si(BIG)), add.s(2, 3))
    yield (
        "group after a chain",
        chain(add.s(1, 2), group(task.si(BIG), add.si(1)), add.si(2)),
    )


@pytest.mark.parametrize("place", range(8))
def test_no_message_of_a_canvas_has_items(
    app: Celery, task: ShardedTask, add: Any, messages: Messages, place: int
) -> None:
    """No message of a canvas has items."""
    name, canvas = [*canvases(task, add)][place]
    canvas.apply_async()
    assert messages(), name
    for message in messages():
        told = json.dumps([message["headers"], message["body"]])
        assert "row 00999" not in told, name
        # A worker that has never heard of us can forward it.
        assert '"subtask_type": "sharded"' not in told, name


def test_a_signature_with_items_survives_json(
    app: Celery, task: ShardedTask, ledger: Ledger, messages: Messages
) -> None:
    """A signature with items survives json."""
    told = json.loads(json.dumps(task.s([1, 2, 3]).set(shadow="rows")))
    assert told["args"] == [[1, 2, 3]]
    signature(told, app=app).delay()
    args, _, _ = messages()[0]["body"]
    assert stored_items(ledger, args) == {MARK: [[1, 2, 3]]}


def test_a_signature_may_be_called_twice(task: ShardedTask, messages: Messages) -> None:
    """A signature may be called twice."""
    one = task.s([1, 2, 3])
    first, second = one.delay(), one.delay()
    assert first.id != second.id
    assert len(messages()) == 2
    assert one.args == ([1, 2, 3],)


# One job for one key


def test_a_key_that_has_a_job_gives_that_job(
    sharding: Sharding, messages: Messages, rows: Rows
) -> None:
    """A key that has a job gives that job."""

    @sharding.task(name="calls.keyed", key="upload-{1}")
    def rows_of(shard: Any) -> None: ...

    first = rows_of.delay([1], "a")
    again = rows_of.delay([1], "a")
    other = rows_of.delay([1], "b")
    assert again.id == first.id != other.id
    assert len(messages()) == 2
    assert len(rows(NOTHING_STORED)) == 2


def test_a_key_in_a_canvas_follows_under_its_own_id(
    sharding: Sharding, add: Any, rows: Rows
) -> None:
    """A key in a canvas follows under its own id."""

    @sharding.task(name="calls.keyed", key=lambda _, name: name)
    def rows_of(shard: Any) -> None: ...

    first = rows_of.delay([1], "a")
    last: Any = chain(rows_of.s([1], "a"), add.si(1, 2)).delay()
    assert last.parent.id != first.id
    ((follows,),) = rows(
        "select leader.task_id from pecker_jobs as job"
        " join pecker_jobs as leader on leader.job = job.follows"
    )
    assert follows == first.id


@pytest.mark.parametrize(
    "key",
    ["{7}", "{name}", lambda *_: "", lambda *_: 5],
    ids=["place", "name", "empty", "number"],
)
def test_a_key_that_does_not_fit_is_refused(
    sharding: Sharding, rows: Rows, key: Any
) -> None:
    """A key that does not fit is refused."""

    @sharding.task(name="calls.keyed", key=key)
    def rows_of(shard: Any) -> None: ...

    with pytest.raises(Misconfigured, match="key"):
        rows_of.delay([1])
    assert rows(NOTHING_STORED) == []


# Any task, once for each item


def test_sharded_calls_any_task_for_each_item(
    sharding: Sharding, add: Any, ledger: Ledger, messages: Messages
) -> None:
    """Sharded calls any task for each item."""
    made = sharded(
        add.s(5).set(queue="elsewhere"),
        [1, 2, 3],
        size=(1, 2),
        concurrency=2,
        on_error=Retry(2, backoff=0.5),
        post=add.s(),
        key="sums",
    )
    told = json.loads(json.dumps(made))
    assert told["options"] == {"queue": "elsewhere"}
    result = made.delay()
    row = ledger.reading.job(result.id)
    assert (row.concurrency, row.key) == (2, "sums")
    assert row.options["size"] == [1, 2]
    assert row.options["on_error"]["retries"] == 2


def test_sharded_refuses_options_where_they_stand(sharding: Sharding, add: Any) -> None:
    """Sharded refuses options where they stand."""
    with pytest.raises(Misconfigured, match="size"):
        sharded(add.s(), [1], size=(3, 1))
    with pytest.raises(Misconfigured, match="no option 'speed'"):
        sharded(add.s(), [1], speed=1)


def test_sharded_needs_the_tasks_behind_it(app: Celery, add: Any) -> None:
    """Sharded needs the tasks behind it."""
    with pytest.raises(Misconfigured, match=r"needs Sharding\(app\) first"):
        sharded(add.s(), [1])
