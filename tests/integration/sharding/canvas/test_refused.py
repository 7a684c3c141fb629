"""What cannot be meant is refused where it stands, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from celery import Celery, chain

from celery_sharding import (
    InlineLimitExceeded,
    Isolate,
    ItemNotSerializable,
    ShardedTask,
    Sharding,
)
from celery_sharding.errors import Misconfigured
from celery_sharding.ledger import Ledger

Messages = Callable[[], list[dict[str, Any]]]
Rows = Callable[[str], list[tuple[Any, ...]]]

NOTHING_STORED = "select task_id from pecker_jobs"


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


def test_an_argument_that_is_no_json_is_refused(
    planned: ShardedTask, rows: Rows
) -> None:
    """An argument that is no JSON is refused."""
    with pytest.raises(ItemNotSerializable, match=r"an argument of calls\.planned"):
        planned.delay(object())
    assert rows(NOTHING_STORED) == []


def test_a_call_without_items_is_refused(task: ShardedTask) -> None:
    """A call without items is refused."""
    with pytest.raises(Misconfigured, match="no pre_process"):
        task.delay()


def test_a_second_positional_argument_is_refused(task: ShardedTask, rows: Rows) -> None:
    """It would be dropped: what a step of a chain returned stands there."""
    with pytest.raises(Misconfigured, match="one positional argument, not 2"):
        task.delay([1], 2)
    assert rows(NOTHING_STORED) == []


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
        ({"konkurrency": 4}, "no option 'konkurrency'; allowed are batch, concurrency"),
        ({"queue": 5}, "queue must be a name"),
        ({"database": ""}, "database must be a name"),
        ({"autoretry_for": (ValueError,)}, "on_error=Retry"),
    ],
)
def test_options_that_cannot_be_are_refused_where_they_stand(
    sharding: Sharding, options: dict[str, Any], says: str
) -> None:
    """Options that cannot be are refused where they stand."""
    with pytest.raises(Misconfigured, match=says):
        sharding.task(name="calls.refused", **options)(len)


def test_options_of_celerys_tasks_are_none_of_ours(sharding: Sharding) -> None:
    """And those of a base of one's own."""

    class Base(ShardedTask):
        abstract = True
        team = "none"

    made: Any = sharding.task(
        base=Base, name="calls.of_celery", priority=3, expires=60, team="us"
    )(len)
    assert (made.priority, made.expires, made.team) == (3, 60, "us")


def test_what_is_no_function_is_refused(sharding: Sharding) -> None:
    """What is no function is refused."""
    given: Any = "rows"
    with pytest.raises(Misconfigured, match="a function or a class, not 'rows'"):
        sharding.task(name="calls.refused")(given)


async def _awaited(*_: Any) -> None:
    """Run where somebody awaits it."""


def _yields(*_: Any) -> Iterator[int]:
    """Run where somebody asks for items."""
    yield 1


@pytest.mark.parametrize("code", [_awaited, _yields])
@pytest.mark.parametrize(
    "place", ["process", "pre_process", "notify", "post_process", "class"]
)
def test_code_that_a_call_would_not_run_is_refused(
    sharding: Sharding, place: str, code: Any
) -> None:
    """A coroutine or a generator does nothing when it is called."""

    def declare() -> None:
        if place == "process":
            sharding.task(name="calls.refused")(code)
            return
        if place == "class":
            members = {"process": staticmethod(len), "notify": staticmethod(code)}
            sharding.task(name="calls.refused")(type("Rows", (), members))
            return
        task = sharding.task(name="calls.refused")(len)
        declared = getattr(task, place)
        (declared() if place == "notify" else declared)(code)

    if place == "pre_process" and code is _yields:
        declare()
        return
    with pytest.raises(
        Misconfigured, match=f"must be a plain function: {code.__name__}"
    ):
        declare()


@pytest.mark.parametrize("place", ["process", "notify", "post_process"])
def test_a_parameter_that_is_never_passed_is_refused(
    sharding: Sharding, place: str
) -> None:
    """Its default would win over what a call passes, in silence."""

    def code(one: Any, two: Any = 0, three: Any = 0, *_: Any, mode: Any = 0) -> None:
        """Have a parameter too many, wherever it stands."""

    members: dict[str, Any] = {"process": len, place: code}
    methods = {name: staticmethod(member) for name, member in members.items()}
    with pytest.raises(
        Misconfigured, match=rf"{place} of .* never passed '(two|three|mode)'"
    ):
        sharding.task(name="calls.refused")(type("Rows", (), methods))


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
