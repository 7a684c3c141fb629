"""A call is a row before its message is sent, or it is nothing at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature
from celery._state import _task_stack  # type: ignore[attr-defined]
from kombu.exceptions import OperationalError, SerializerNotInstalled

from celery_pecker import deadline
from celery_pecker.runs import handing_on
from celery_sharding import (
    InlineLimitExceeded,
    Isolate,
    ItemNotSerializable,
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


@pytest.fixture
def task(sharding: Sharding) -> ShardedTask:
    """Give a task whose first argument is its items."""

    @sharding.task(name="calls.rows")
    def rows(shard: Any) -> None:
        for row in shard:
            shard.ok(row)

    return rows


@pytest.fixture
def planned(sharding: Sharding) -> ShardedTask:
    """Give a task whose items come of PreProcess."""

    @sharding.task(name="calls.planned")
    def rows(shard: Any) -> None:
        for row in shard:
            shard.ok(row)

    @rows.pre_process
    def plan(job: Any, first: int, last: int = 3) -> Any:
        return [*range(first, last)]

    return rows


@pytest.fixture
def add(app: Celery) -> Any:
    """Give a plain task."""

    @app.task(name="calls.add", shared=False)
    def plus(one: int, other: int = 0) -> int:
        return one + other

    return plus


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
    """A source travels as what names it."""
    task.delay(KeyRange(1, 1_000_000))
    args, _, _ = messages()[0]["body"]
    assert args[0]["first"] == 1
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


# What is refused is refused here


def test_items_above_the_limit_are_refused_with_their_size(
    task: ShardedTask, rows: Rows, messages: Messages
) -> None:
    """Items above the limit are refused with their size."""
    with pytest.raises(InlineLimitExceeded, match=r"\d,\d{3} bytes.*give a Source"):
        task.delay(["x" * 100] * 1_000)
    assert rows(NOTHING_STORED) == []
    assert rows("select ref from pecker_inputs") == []
    assert messages() == []


def test_what_never_ends_is_refused(task: ShardedTask) -> None:
    """What never ends is refused."""
    with pytest.raises(InlineLimitExceeded, match="at least"):
        task.delay(count())


@pytest.mark.parametrize("given", [None, "text", {"a": 1}, 7, {1, 2}])
def test_what_is_no_items_is_refused(task: ShardedTask, rows: Rows, given: Any) -> None:
    """What is no items is refused."""
    with pytest.raises(Misconfigured, match="allowed are a list"):
        task.delay(given)
    assert rows(NOTHING_STORED) == []


def test_an_item_that_is_no_json_is_named(task: ShardedTask, rows: Rows) -> None:
    """An item that is no json is named."""
    with pytest.raises(ItemNotSerializable, match=r"item 1 \(object\)"):
        task.delay([1, object()])
    assert rows(NOTHING_STORED) == []


def test_a_call_without_items_is_refused(task: ShardedTask) -> None:
    """A call without items is refused."""
    with pytest.raises(Misconfigured, match="no pre_process"):
        task.delay()


def test_arguments_that_pre_process_does_not_take_are_refused(
    planned: ShardedTask, rows: Rows
) -> None:
    """Arguments that pre process does not take are refused."""
    with pytest.raises(TypeError, match="first"):
        planned.delay()
    with pytest.raises(TypeError, match="unexpected"):
        planned.delay(1, other=2)
    assert rows(NOTHING_STORED) == []


def test_items_above_the_limit_are_refused_before_any_of_a_canvas_is_sent(
    task: ShardedTask, add: Any, messages: Messages
) -> None:
    """Items above the limit are refused before any of a canvas is sent."""
    with pytest.raises(InlineLimitExceeded):
        chain(add.s(1, 2), task.si(["x" * 100] * 1_000)).delay()
    assert messages() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": (0, 5)}, r"size\[0\]"),
        ({"size": (7, 5)}, "7 is more than 5"),
        ({"concurrency": 0}, "concurrency"),
        ({"on_error": "ignore"}, "on_error"),
        ({"cut": "thin"}, "'contiguous' or 'hash'"),
        ({"bind": True}, "bind"),
        ({"autoretry_for": (ValueError,)}, "on_error=Retry"),
    ],
)
def test_options_that_cannot_be_are_refused_where_they_stand(
    sharding: Sharding, options: dict[str, Any], says: str
) -> None:
    """Options that cannot be are refused where they stand."""
    with pytest.raises(Misconfigured, match=says):
        sharding.task(name="calls.refused", **options)(print)


def test_options_of_a_call_go_before_those_of_the_task(
    task: ShardedTask, ledger: Ledger
) -> None:
    """Options of a call go before those of the task."""
    result = task.apply_async(
        ([1, 2],), sharding={"concurrency": 3, "on_error": Isolate(max_failed=2)}
    )
    options = ledger.reading.job(result.id).options
    assert options["concurrency"] == 3
    assert options["on_error"] == {"kind": "isolate", "max_failed": 2}
    with pytest.raises(Misconfigured, match="no option 'speed'"):
        task.apply_async(([1],), sharding={"speed": 3})


def test_there_is_no_such_setting(app: Celery) -> None:
    """There is no such setting."""
    with pytest.raises(Misconfigured, match="no setting 'slices'"):
        Sharding(app, slices=3)


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
    handing_on.connect()
    slot = {"name": "nightly"}
    with deadline.within(60):
        task.apply_async(([1, 2],), headers={"pecker": slot, "mine": "kept"})
    (message,) = messages()
    assert "pecker_deadline" not in message["headers"]
    assert message["headers"]["pecker"] == slot
    ((told,),) = rows("select continuation -> 'headers' from pecker_jobs")
    assert told == {"mine": "kept"}


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


# A class


def test_a_class_of_four_methods_is_a_task(sharding: Sharding) -> None:
    """A class of four methods is a task."""

    @sharding.task(name="calls.imports", concurrency=2)
    class Imports:
        """Rows."""

        def pre_process(self, _job: Any, last: int) -> Any:
            return range(last)

        def process(self, shard: Any) -> None:
            for row in shard:
                shard.ok(row)

        def notify(self, job: Any, progress: Any) -> None: ...

        def post_process(self, _job: Any, results: Any, _errors: Any) -> int:
            return sum(results)

    made: Any = Imports
    assert isinstance(made, ShardedTask)
    assert (made.name, made.__doc__) == ("calls.imports", "Rows.")
    assert made.processor.options.notify_every == 0.05
    assert made(5) == 10


def test_a_class_without_process_is_refused(sharding: Sharding) -> None:
    """A class without process is refused."""
    with pytest.raises(Misconfigured, match="process"):

        @sharding.task
        class Nothing: ...


def test_declaring_a_task_does_not_read_the_configuration() -> None:
    """Declaring a task does not read the configuration."""
    app: Any = Celery("early", set_as_current=False)

    @Sharding(app).task
    def rows(shard: Any) -> None: ...

    assert not app.configured
    assert rows.name == f"{__name__}.rows"
    assert rows.name in app.tasks
