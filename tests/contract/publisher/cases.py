"""An app with every kind of queue and task, and the entries that are compared."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from celery.exceptions import CDeprecationWarning
from celery.schedules import schedule
from kombu import Exchange, Queue

from celery_pecker.kernel.clock import SYSTEM

TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "urgent": {"priority": 6},
    "brief": {"expires": 7},
    "limited": {"time_limit": 9, "soft_time_limit": 5},
    "quiet": {"ignore_result": True},
    "pickled": {"serializer": "pickle"},
    "squeezed": {"compression": "gzip"},
}

# What a task is called with: (task, args, kwargs, options)
Call = tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]

CALLS: dict[str, Call] = {
    "nothing": ("plain", (), {}, {}),
    "arguments": ("plain", (1, 'a%s"', None), {"k": "%d", "ü": "✓ %(id)s"}, {}),
    "priority 0": ("plain", (), {}, {"priority": 0}),
    "priority 3": ("plain", (), {}, {"priority": 3}),
    "priority 6": ("plain", (), {}, {"priority": 6}),
    "priority 7": ("plain", (), {}, {"priority": 7}),
    "priority 9": ("plain", (), {}, {"priority": 9}),
    "priority of the task": ("urgent", (), {}, {}),
    "priority against the task's": ("urgent", (), {}, {"priority": 2}),
    "expires": ("plain", (), {}, {"expires": 5}),
    "expires in fractions": ("plain", (), {}, {"expires": 1.25}),
    "expires of the task": ("brief", (), {}, {}),
    "expires against the task's": ("brief", (), {}, {"expires": None}),
    "expires at an instant": (
        "plain",
        (),
        {},
        {"expires": (SYSTEM.now() + timedelta(days=9)).isoformat()},
    ),
    "expired long ago": ("plain", (), {}, {"expires": "2001-01-01T00:00:00"}),
    "expiring queue": ("plain", (), {}, {"queue": "expiring", "priority": 3}),
    "expiring queue, declared each time": ("plain", (), {}, {"queue": "fading"}),
    "limits": ("plain", (), {}, {"time_limit": 3, "soft_time_limit": 2}),
    "limits of the task": ("limited", (), {}, {}),
    "headers": (
        "plain",
        (),
        {},
        {"headers": {"x": '%s % "q" \\ é ☃', "deep": {"a": [1, None, True]}}},
    ),
    "pickle": ("plain", ({1, 2},), {}, {"serializer": "pickle"}),
    "pickle of the task": ("pickled", ({1, 2},), {}, {}),
    "yaml": ("plain", ("ü",), {}, {"serializer": "yaml"}),
    "gzip": ("plain", ("a" * 5000,), {}, {"compression": "gzip"}),
    "gzip of the task": ("squeezed", ("a",), {}, {}),
    "zlib": ("plain", ("a" * 5000,), {}, {"compression": "zlib"}),
    "large": ("plain", ("%" * 300_000,), {}, {}),
    "shadow": ("plain", (), {}, {"shadow": "nick%name"}),
    "representations": (
        "plain",
        (1,),
        {"a": 2},
        {"argsrepr": "(hidden %s)", "kwargsrepr": "{}"},
    ),
    "ignored result": ("plain", (), {}, {"ignore_result": True}),
    "ignored result of the task": ("quiet", (), {}, {}),
    "direct exchange": ("plain", (), {}, {"exchange": "direct", "routing_key": "rk"}),
    "queue on an exchange": ("plain", (), {}, {"queue": "bound"}),
    "queue made up": ("plain", (), {}, {"queue": "made-up"}),
    "routed by name": ("routed", (), {}, {}),
    "link": ("plain", (), {}, {"link": "signature", "link_error": "signature"}),
    "chain and ids": (
        "plain",
        (),
        {},
        {"root_id": "r", "parent_id": "p", "group_id": "g", "reply_to": "here"},
    ),
    "correlation": ("plain", (), {}, {"correlation_id": "mine"}),
    "own id": ("plain", (), {}, {"task_id": "mine"}),
    "stamps": ("plain", (), {}, {"stamped_headers": ["who"], "who": "%me"}),
    "transient": ("plain", (), {}, {"delivery_mode": 1}),
    "property": ("plain", (), {}, {"message_id": "m%1"}),
    "nobody's task": ("nobody", (1,), {}, {"priority": 3, "expires": 4}),
}

#: Entries that the fast lane must leave alone, and what their reason says.
SLOW: dict[str, tuple[Call, str]] = {
    "countdown": (("plain", (), {}, {"countdown": 3}), "countdown"),
    "eta": (("plain", (), {}, {"eta": "2099-01-01T00:00:00+00:00"}), "eta"),
    "own apply_async": (("stubborn", (), {}, {}), "apply_async"),
    "own shadow_name": (("shady", (), {}, {}), "shadow_name"),
}


def make_app(broker_url: str, prefix: str = "", **settings: Any) -> Celery:
    """Return an app on this broker; its queues and exchanges begin with `prefix`."""
    app = Celery("contract", broker=broker_url, set_as_current=False)

    def queue(name: str, exchange: str = "", key: str = "", **options: Any) -> Queue:
        kind = "topic" if exchange == "topic" else "direct"
        place = Exchange(prefix + exchange, type=kind) if exchange else None
        return Queue(prefix + name, place, routing_key=key, **options)

    app.conf.update(
        task_queues=[
            queue(
                "celery", max_priority=9 if broker_url.startswith("pyamqp") else None
            ),
            queue("expiring", expires=60),
            queue("fading", queue_arguments={"x-expires": 60_000}),
            queue("bound", "direct", "rk"),
            queue("heard", "topic", "a.#"),
        ],
        task_default_queue=f"{prefix}celery",
        task_routes={"*.routed": {"queue": f"{prefix}bound"}},
        broker_connection_retry_on_startup=False,
    )
    app.conf.update(settings)

    class Stubborn(app.Task):  # type: ignore[name-defined]
        def apply_async(self, *args: Any, **options: Any) -> Any:
            options.setdefault("headers", {})["stubborn"] = True
            return super().apply_async(*args, **options)

    class Shady(app.Task):  # type: ignore[name-defined]
        def shadow_name(self, *_: object) -> str:
            return "another"

    def nothing(*args: object, **kwargs: object) -> None:
        """What is run does not matter."""

    bases: dict[str, type | None] = {"stubborn": Stubborn, "shady": Shady}
    task: Any = app.task
    for name in (*TASKS, "routed", *bases):
        task(
            nothing,
            name=f"contract.{name}",
            base=bases.get(name),
            shared=False,
            **TASKS.get(name, {}),
        )
    with warnings.catch_warnings():
        # a task's own priority will go one day; until then it counts
        warnings.simplefilter("ignore", CDeprecationWarning)
        app.finalize()
    return app


def make_entry(app: Celery, name: str, call: Call, prefix: str = "") -> Any:
    """Return the call as an entry of a beat schedule."""
    task, args, kwargs, options = call
    options = dict(options)
    for option in ("queue", "exchange"):
        if option in options:
            options[option] = prefix + options[option]
    for option in ("link", "link_error"):
        if option in options:
            options[option] = app.signature("contract.plain", ("%s",), priority=1)
    if "headers" in options:
        options["headers"] = dict(options["headers"])
    return Scheduler.Entry(
        name=name,
        task=f"contract.{task}",
        schedule=schedule(60),
        args=args,
        kwargs=dict(kwargs),
        options=options,
        app=app,
    )
