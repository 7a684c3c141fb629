"""Local runs in the event stream: a real receiver on a real broker hears of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_pecker.schedules.local import EventSender, sends_events
from celery_pecker.testing import EmbeddedRedis, eventually
from tests.integration.local.hand import Make


class Listener:
    """What `celery events` and Flower hear."""

    def __init__(self, app: Celery) -> None:
        self.state: Any = app.events.State()
        self.events: list[dict[str, Any]] = []
        self._connection = app.connection_for_read()
        self._receiver: Any = app.events.Receiver(
            self._connection, handlers={"*": self._hear}
        )
        self._receiver.on_consume_ready = lambda *_, **__: None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        eventually(lambda: self._hears(app), 30.0, "the listener hears", interval=0.1)
        self.events.clear()

    def _hears(self, app: Celery) -> bool:
        """On Redis it has subscribed some time after it says that it is ready."""
        dispatcher: Any = app.events.default_dispatcher
        with dispatcher() as probe:
            probe.send("worker-online")
        return bool(self.events)

    def _listen(self) -> None:
        for _ in self._receiver.consume(limit=None, safety_interval=0.1):
            pass

    def _hear(self, event: dict[str, Any]) -> None:
        self.state.event(dict(event))
        self.events.append(event)

    @property
    def told(self) -> list[tuple[str, str]]:
        """Events of tasks: their ids and types."""
        events = [event for event in self.events if "uuid" in event]
        return [(event["uuid"], event["type"]) for event in events]

    def close(self) -> None:
        """Hear no more."""
        self._receiver.should_stop = True
        self._thread.join(30.0)
        self._connection.release()


@pytest.fixture
def listening() -> Iterator[Callable[[Celery], Listener]]:
    """Give a function that listens to an app's events."""
    made: list[Listener] = []

    def listen(app: Celery) -> Listener:
        made.append(Listener(app))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def app_on(url: str, queue: str = "celeryev") -> Celery:
    """Return an app whose events are its own."""
    app = Celery("proj", broker=url, set_as_current=False)
    app.conf.update(event_exchange=queue, event_queue_prefix=queue)
    return app


@pytest.mark.parametrize("broker", ["redis_url", "amqp_url"])
def test_a_local_run_is_a_task_in_the_event_stream(
    broker: str,
    request: pytest.FixtureRequest,
    queue_name: str,
    hand: Make,
    listening: Callable[[Celery], Listener],
) -> None:
    """With the worker's name, its arguments, and how it ended."""
    app = app_on(request.getfixturevalue(broker), queue_name)

    @app.task(name="add", shared=False)
    def add(one: int, two: int) -> int:
        return one + two

    @app.task(name="fall", shared=False)
    def fall() -> None:
        raise ValueError("told")

    listener = listening(app)
    one = hand(app, wanted=lambda: True)
    one.run(one.prepare(add, args=(1, 2)), one.prepare(fall))
    one.ended()
    eventually(lambda: len(listener.told) >= 6, 30.0, "all is told")
    tasks = {task.name: task for _, task in listener.state.tasks_by_time()}
    assert tasks["add"].state == "SUCCESS"
    assert (tasks["add"].args, tasks["add"].result) == ("[1, 2]", "3")
    assert tasks["add"].runtime >= 0
    assert tasks["add"].worker.hostname == "hand@test"
    assert tasks["fall"].state == "FAILURE"
    assert tasks["fall"].exception == "ValueError('told')"
    assert "raise ValueError" in tasks["fall"].traceback
    mine = [kind for uuid, kind in listener.told if uuid == tasks["add"].uuid]
    assert mine == ["task-received", "task-started", "task-succeeded"]


def test_events_wait_for_a_broker_that_is_away_and_the_oldest_are_dropped(
    own_redis: Callable[..., EmbeddedRedis],
    listening: Callable[[Celery], Listener],
) -> None:
    """No run waits for them, and they do not grow for ever."""
    redis = own_redis(fast=True)
    app = app_on(redis.url)

    @app.task(name="told", shared=False)
    def told() -> None: ...

    sender = EventSender(app, "hand@test", most=10, timeout=1.0)
    sender.send("task-started", told, uuid="first")
    eventually(lambda: not sender.waiting, 30.0, "the first is told")
    redis.kill()
    for number in range(25):
        sender.send("task-started", told, uuid=f"{number}")
    assert (sender.waiting, sender.dropped) == (10, 15)
    redis.start()
    listener = listening(app)
    eventually(lambda: not sender.waiting, 30.0, "they got out")
    sender.send("task-started", told, uuid="last")
    last = ("last", "task-started")
    eventually(lambda: last in listener.told, 30.0, "the last is sent")
    assert listener.told[-1] == last
    sender.stop()
    assert sender.join(30.0)


def test_no_event_ends_the_wait_for_a_broker() -> None:
    """Local runs end many times a second: the broker is tried by the back-off alone."""
    app = app_on("redis://127.0.0.1:1/0")

    @app.task(name="told", shared=False)
    def told() -> None: ...

    sender = EventSender(app, "hand@test", timeout=1.0)
    sender._started = True  # its loop is turned by hand
    sender.send("task-started", told, uuid="first")
    first = sender._step()
    sender.send("task-started", told, uuid="second")
    assert 0.0 < sender._step() <= first
    assert sender._failures == 1


def test_the_last_events_of_a_worker_are_told(
    redis_url: str, listening: Callable[[Celery], Listener]
) -> None:
    """Else Flower would show its last run as going for ever."""
    app = app_on(redis_url)

    @app.task(name="told", shared=False)
    def told() -> None: ...

    listener = listening(app)
    for number in range(20):
        sender = EventSender(app, "hand@test")
        sender.send("task-started", told, uuid=f"{number}")
        eventually(lambda one=sender: not one.waiting, 30.0, "it has nothing to do")  # type: ignore[misc]
        sender.send("task-succeeded", told, uuid=f"{number}", result="", runtime=0)
        sender.stop()
        assert sender.join(30.0)
    eventually(lambda: len(listener.told) == 40, 30.0, "all is told")


def test_a_worker_without_task_events_tells_nothing(redis_url: str) -> None:
    """As of its other tasks; a remote command switches them on while it runs."""
    app = app_on(redis_url)

    @app.task(name="told", shared=False)
    def told() -> None: ...

    @app.task(name="quiet", send_events=False, shared=False)
    def quiet() -> None: ...

    worker = SimpleNamespace()
    wanted = sends_events(worker)
    assert not wanted()
    worker.consumer = SimpleNamespace(event_dispatcher=None)
    assert not wanted()
    events = SimpleNamespace(enabled=True, groups={"worker"})
    worker.consumer.event_dispatcher = events
    assert not wanted()
    events.groups.add("task")
    assert wanted()
    worker.consumer.event_dispatcher = None
    assert wanted(), "while its consumer connects again"
    events.groups = None
    worker.consumer.event_dispatcher = events
    assert wanted()
    events.enabled = False
    sender = EventSender(app, "hand@test", wanted=wanted)
    sender.send("task-started", told, uuid="1")
    events.enabled = True
    sender.send("task-started", quiet, uuid="1")
    assert sender.waiting == 0
    assert sender.join(0.0), "it needs no thread"
