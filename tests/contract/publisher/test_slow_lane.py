"""What only Celery itself can do goes by the slow lane, on any transport."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Task
from celery.beat import BeatLazyFunc, ScheduleEntry, Scheduler
from celery.schedules import schedule
from kombu import Connection

from celery_pecker.brokers.publisher import Publisher
from celery_pecker.kernel.errors import PublishUncertain
from tests.contract.publisher.cases import CALLS, Call, make_app, make_entry
from tests.contract.publisher.conftest import Stand, Wire, dispatch
from tests.contract.publisher.lanes import Lane, lane_of

MakeStand = Callable[..., Stand]


def test_lazy_arguments_are_evaluated_for_each_run(
    wire: Wire, stand_on: MakeStand
) -> None:
    """Also while others of the batch go fast."""
    numbers = itertools.count(41)
    lazy = BeatLazyFunc(lambda: next(numbers))
    stand = stand_on(wire)
    calls: dict[str, Call] = {
        "arg": ("plain", (lazy,), {}, {}),
        "kwarg": ("plain", (), {"n": lazy}, {}),
        "plain": CALLS["nothing"],
    }
    for name, call in calls.items():
        stand.known(make_entry(stand.app, name, call, wire.prefix))
    assert lane_of(stand.publisher, "plain").lane is Lane.FAST
    assert "BeatLazyFunc" in lane_of(stand.publisher, "arg").reason
    assert "BeatLazyFunc" in lane_of(stand.publisher, "kwarg").reason
    for _ in range(2):
        stand.send([dispatch(name) for name in calls])

    texts = "".join(text for _, text in wire.take())
    for said in ("[41]", "{'n': 42}", "[43]", "{'n': 44}"):
        assert said in texts
    assert next(numbers) == 45


def test_an_entry_that_cannot_be_built_keeps_nobody_back(
    wire: Wire, stand_on: MakeStand, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, the others are done; beat's own log line is there as well."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    bad: Call = ("plain", (object(),), {}, {})
    stand.known(make_entry(stand.app, "bad", bad, wire.prefix))
    with (
        caplog.at_level(logging.ERROR, "celery.beat"),
        pytest.raises(
            PublishUncertain, match=r"bad: .*not JSON serializable"
        ) as caught,
    ):
        stand.send([dispatch("bad"), dispatch("one")])

    assert caught.value.done == {"one"}
    assert not caught.value.retry_safe
    assert "Message Error" in caplog.text
    assert len(wire.take()) == 1


@pytest.mark.parametrize("error", [ConnectionError, SystemExit])
def test_a_lazy_argument_that_fails_keeps_nobody_back(
    wire: Wire, stand_on: MakeStand, error: type[BaseException]
) -> None:
    """An OSError of the user's code is no failure of the broker.

    And ``sys.exit`` in it ended the thread of each replica that won the slot.
    """

    def fail() -> None:
        raise error

    stand = stand_on(wire)
    slow: Call = ("plain", (BeatLazyFunc(lambda: 1),), {}, {})
    bad: Call = ("plain", (BeatLazyFunc(fail),), {}, {})
    stand.known(make_entry(stand.app, "one", slow, wire.prefix))
    stand.known(make_entry(stand.app, "bad", bad, wire.prefix))
    for _ in range(2):
        with pytest.raises(PublishUncertain, match="bad: ") as caught:
            stand.send([dispatch("bad"), dispatch("one")])
        assert caught.value.done == {"one"}

    assert len(wire.take()) == 2


def test_a_task_that_asks_the_process_to_end_keeps_nobody_back(
    wire: Wire, stand_on: MakeStand
) -> None:
    """Its message is built before the claim, on the same thread."""
    stand = stand_on(wire)

    class Leaving(Task):  # type: ignore[type-arg]
        def apply_async(self, *_: Any, **__: Any) -> Any:
            sys.exit(3)

    @stand.app.task(name="contract.leaving", base=Leaving, shared=False)
    def leaving() -> None:
        """Never sent."""

    stand.known(make_entry(stand.app, "bad", ("leaving", (), {}, {}), wire.prefix))
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    with pytest.raises(PublishUncertain, match=r"bad: .*SystemExit") as caught:
        stand.send([dispatch("bad"), dispatch("one")])
    assert caught.value.done == {"one"}
    assert len(wire.take()) == 1


def test_routes_that_are_functions_are_asked_for_each_run(
    wire: Wire, stand_on: MakeStand
) -> None:
    """A router may answer differently each time."""
    answers = itertools.cycle(["celery", "bound"])

    def route(*_: object, **__: object) -> dict[str, str]:
        return {"queue": f"{wire.prefix}{next(answers)}"}

    stand = stand_on(wire, task_routes=[route])
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    assert "task_routes" in lane_of(stand.publisher, "one").reason
    stand.send([dispatch("one")])
    stand.send([dispatch("one")])

    assert len({place for place, _ in wire.take()}) == 2


def test_an_eager_app_runs_the_task_and_sends_nothing(
    wire: Wire, stand_on: MakeStand
) -> None:
    """As in beat: `task_always_eager` is for tests of one process."""
    ran = []
    stand = stand_on(wire, task_always_eager=True)

    @stand.app.task(name="contract.eager", shared=False)
    def eager() -> None:
        ran.append(1)

    stand.known(make_entry(stand.app, "one", ("eager", (), {}, {}), wire.prefix))
    assert "task_always_eager" in lane_of(stand.publisher, "one").reason
    stand.send([dispatch("one")])

    assert ran == [1]
    assert not wire.take()


def test_a_transport_without_a_fast_lane_gets_its_messages(tmp_path: Path) -> None:
    """The filesystem is a broker too."""
    for folder in ("messages", "control"):
        (tmp_path / folder).mkdir()
    options: dict[str, Any] = {
        "data_folder_in": str(tmp_path / "messages"),
        "data_folder_out": str(tmp_path / "messages"),
        "control_folder": str(tmp_path / "control"),
    }
    app = make_app("filesystem://", broker_transport_options=options)
    publisher = Publisher(app, Scheduler(app, lazy=True), timeout=2)
    publisher.prepare(make_entry(app, "one", CALLS["arguments"]))
    assert lane_of(publisher, "one").reason == "transport filesystem"
    publisher.publish([dispatch("one"), dispatch("one")], "t")
    publisher.close()

    found = [json.loads(file.read_text()) for file in (tmp_path / "messages").iterdir()]
    assert [message["headers"]["pecker"]["era"] for message in found] == [0, 0]


def test_memory_is_a_transport_like_another(caplog: pytest.LogCaptureFixture) -> None:
    """What is in this process's memory is found there."""
    app = make_app("memory://", "of-this-test-")
    publisher = Publisher(app, Scheduler(app, lazy=True), timeout=2)
    publisher.prepare(make_entry(app, "one", CALLS["headers"]))
    slot = dispatch("one")
    publisher.publish([slot], "t")
    with Connection("memory://") as connection:
        queue = connection.SimpleQueue("of-this-test-celery")
        message = queue.get(timeout=1)
        assert message.headers["id"] == slot.task_id
        message.ack()
    publisher.close()


def test_a_changed_entry_is_built_again_and_an_equal_one_is_not(
    wire: Wire, stand_on: MakeStand
) -> None:
    """`prepare` may be called as often as one likes."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    built = stand.publisher._known["one"].message
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    assert stand.publisher._known["one"].message is built
    changed = make_entry(stand.app, "one", CALLS["arguments"], wire.prefix)
    stand.known(changed)
    stand.send([dispatch("one")])

    ((_, text),) = wire.take()
    assert "a%s" in text


def test_an_entry_never_prepared_is_an_error_before_anything_is_sent(
    wire: Wire, stand_on: MakeStand
) -> None:
    """A name is not enough to build a message from."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    with pytest.raises(KeyError, match="unheard"):
        stand.send([dispatch("one"), dispatch("unheard")])

    assert not wire.take()


def test_a_task_registered_since_changes_the_lane(
    wire: Wire, stand_on: MakeStand
) -> None:
    """Its class has an `apply_async` of its own, and that is called."""
    called = []
    stand = stand_on(wire)
    entry = ScheduleEntry(name="one", task="late", schedule=schedule(60), app=stand.app)
    stand.known(entry)
    assert lane_of(stand.publisher, "one").lane is Lane.FAST

    class Late(stand.app.Task):  # type: ignore[name-defined]
        name = "late"

        def apply_async(self, *args: Any, **options: Any) -> Any:
            called.append(1)
            return super().apply_async(*args, **options)

    stand.app.register_task(Late())
    stand.send([dispatch("one")])

    assert called == [1]
    assert len(wire.take()) == 1
