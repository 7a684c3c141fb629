"""Run as a program: publishes, is instrumented, publishes again; prints the lanes.

    python instrumented.py BROKER_URL WHAT

A process of its own, since what is patched here stays patched.
"""

from __future__ import annotations

import functools
import logging
import sys
from types import FunctionType
from typing import Any

import celery.app.base
import celery.app.task
import celery.beat
import kombu.messaging
from celery import Celery, signals
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

from celery_pecker.brokers.publisher import Dispatch, Publisher
from celery_pecker.kernel.clock import new_id
from tests.contract.publisher.lanes import lane_of
from tests.told import told

seen: list[str] = []


def wrapped(owner: Any, name: str) -> None:
    """As Sentry does it: a function that names what it wraps."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return original(*args, **kwargs)

    setattr(owner, name, patched)


class ObjectProxy:
    """As wrapt does it: an object that lends every attribute of what it wraps."""

    def __init__(self, original: FunctionType) -> None:
        """Keep what is wrapped."""
        self.original = original

    def __getattr__(self, name: str) -> Any:
        """Return what the wrapped function has."""
        return getattr(self.original, name)

    def __get__(self, instance: object, owner: type) -> Any:
        """Return the method."""
        return functools.partial(self, instance) if instance is not None else self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Note the call."""
        seen.append(self.original.__name__)
        return self.original(*args, **kwargs)


def proxied(owner: Any, name: str) -> None:
    """Lay a proxy over a method."""
    setattr(owner, name, ObjectProxy(getattr(owner, name)))


def recompiled(owner: Any, name: str) -> None:
    """As a tracer does it that writes byte code: the same function, other code."""
    function = getattr(owner, name)
    original = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__
    )
    function.__globals__["_seen"] = lambda: seen.append(name)
    function.__globals__["_original"] = original
    text = "def patched(*args, **kwargs):\n _seen()\n return _original(*args, **kwargs)"
    code = compile(text, function.__code__.co_filename, "exec")
    space: dict[str, Any] = {}
    exec(code, function.__globals__, space)  # noqa: S102
    function.__code__ = space["patched"].__code__


def listen(signal: str) -> None:
    """As OpenTelemetry does it: a receiver, connected for good."""

    def receiver(**_: Any) -> None:
        seen.append(signal)

    getattr(signals, signal).connect(receiver, weak=False)


WAYS: dict[str, Any] = {
    "before_task_publish": lambda _: listen("before_task_publish"),
    "after_task_publish": lambda _: listen("after_task_publish"),
    "task_sent": lambda _: listen("task_sent"),
    "Scheduler.apply_entry": lambda _: wrapped(celery.beat.Scheduler, "apply_entry"),
    "Scheduler.apply_async": lambda _: wrapped(celery.beat.Scheduler, "apply_async"),
    "Task.apply_async": lambda _: wrapped(celery.app.task.Task, "apply_async"),
    "Celery.send_task": lambda _: wrapped(celery.app.base.Celery, "send_task"),
    "Producer.publish": lambda _: wrapped(kombu.messaging.Producer, "publish"),
    "wrapt apply_entry": lambda _: proxied(celery.beat.Scheduler, "apply_entry"),
    "wrapt publish": lambda _: proxied(kombu.messaging.Producer, "publish"),
    "byte code": lambda _: recompiled(celery.beat.Scheduler, "apply_entry"),
    "task_send_sent_event": lambda app: app.conf.update(task_send_sent_event=True),
}


def main(url: str, what: str) -> None:
    """Print the lane before and after, its reason, and what the tracer has seen."""
    app = Celery("instrumented", broker=url)

    @app.task(name="known")
    def known(_: str) -> None:
        """What is run does not matter."""

    publisher = Publisher(app, Scheduler(app, lazy=True), timeout=2)
    for name in ("one", "two"):
        publisher.prepare(
            ScheduleEntry(
                name=name, task="known", args=("",), schedule=schedule(60), app=app
            )
        )

    def send() -> None:
        batch = [
            Dispatch(name=name, task_id=str(new_id()), header={})
            for name in ("one", "two")
        ]
        publisher.publish(batch, str(new_id()))

    send()
    before = lane_of(publisher, "one").lane
    assert not seen
    WAYS[what](app)
    send()
    after = lane_of(publisher, "one")
    publisher.close()
    sys.stdout.write(f"{before}|{after.lane}|{after.reason}|{len(seen)}")


if __name__ == "__main__":
    logging.disable()
    main(*told())
