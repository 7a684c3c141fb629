"""The sharded task that stands behind `sharded`: a call of any task for each item.

A call does for one item what a worker does for a message. The task sees a request of
its own (`self.request`), its handlers and Celery's signals are called, and `self.retry`
is a further attempt at the item. It is traced as by ``apply``: nothing is sent or
stored for an item but what the task itself sends.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.app.trace import build_tracer
from celery.canvas import Signature
from celery.exceptions import Ignore, Reject, Retry

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.canvas.signature import EACH, EACH_THEN, refuse_rate_limit
from celery_sharding.canvas.task import WHERE, ShardedTask
from celery_sharding.errors import ProcessorNotRegistered, ShardingError
from celery_sharding.model import ItemError, Job, Options
from celery_sharding.policies import applied
from celery_sharding.processor import Processor

if TYPE_CHECKING:
    from celery_sharding.canvas.result import ShardedResult
    from celery_sharding.runner import Shard


ITEM = "_sharding_item"
"""What a request says that is of an item; and a task that looks for it."""


def signature_of(app: Celery, stored: Mapping[str, Any]) -> Signature:
    """Return a signature of a job; raise where its task is not known here."""
    signature = Signature.from_dict({**stored}, app=app)
    if signature.task not in app.tasks:
        raise ProcessorNotRegistered(
            f"this worker knows no task {signature.task!r}, which sharded() names"
        )
    return signature


class Calls:
    """Calls a task for the items of a shard."""

    def __init__(self, app: Celery, stored: Mapping[str, Any], shard: "Shard") -> None:
        signature = signature_of(app, stored)
        self._task: Any = signature.type
        refuse_rate_limit(self._task)
        _watch_replace(self._task)
        self._signature = signature
        self._shard = shard
        self._trace = build_tracer(self._task.name, self._task, eager=True, app=app)
        running: Any = app.current_worker_task
        hostname = running.request.hostname if running else None
        self._hostname = hostname or socket.gethostname()

    def call(self, item: Any) -> None:
        """Call the task; what it returns is a result. Raise what it failed with."""
        signature, shard = self._signature, self._shard
        first = () if signature.immutable else (item,)
        args: Any = (*first, *signature.args)
        own = shard.item_id
        traced = self._trace(own, args, dict(signature.kwargs), self._request(own))
        if traced.info is None:
            shard.ok(traced.retval)
            return
        error: Any = traced.info.retval
        if isinstance(error, Retry):
            self._retry(error, args)
        elif isinstance(error, Reject):
            raise ShardingError(
                f"{self._task.name} raised Reject: there is no message to reject"
            ) from error
        elif not isinstance(error, Ignore):
            raise error

    def _retry(self, asked: Any, args: tuple[Any, ...]) -> None:
        retried = asked.sig
        plain = self._signature.kwargs
        if retried is not None and (tuple(retried.args), retried.kwargs) != (
            args,
            plain,
        ):
            raise ShardingError(
                f"{self._task.name} called self.retry() with other arguments: an item"
                " of sharded() is retried as it is"
            )
        self._shard.retry(asked.exc or asked, _seconds(asked.when))

    def _request(self, own: str) -> dict[str, Any]:
        job = self._shard.job
        return {
            "id": own,
            "task": self._task.name,
            "root_id": job.id,
            "parent_id": job.id,
            "retries": self._shard.attempt - 1,
            "hostname": self._hostname,
            "is_eager": True,
            ITEM: True,
            "delivery_info": {"is_eager": True},
            "headers": {**job.headers},
            "properties": {**job.properties, "correlation_id": own},
        }


def _watch_replace(task: Any) -> None:
    """Refuse `self.replace` in calls for items; leave the task's own runs as they are.

    There is no message whose place another could take; and what is to replace it may
    be for workers of another queue.
    """
    if ITEM in vars(task):
        return
    celerys = task.on_replace

    def on_replace(sig: Signature) -> Any:
        if task.request.get(ITEM):
            raise ShardingError(
                f"{task.name} called self.replace(): an item of sharded() cannot be"
                " replaced; return what is to be done, as items of a job that follows"
            )
        return celerys(sig)

    task.on_replace = on_replace
    setattr(task, ITEM, True)


def _seconds(when: Any) -> float:
    """Return the seconds until an instant, or the number that is given.

    As Celery, an instant without a zone is UTC.
    """
    if isinstance(when, datetime):
        at = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max((at - SYSTEM.now()).total_seconds(), 0.0)
    return max(float(when or 0.0), 0.0)


PLACES = ("queue", "exchange", "routing_key")
"""What of a route says where."""


def processors(app: Celery) -> tuple[Processor, Processor]:
    """Return what stands behind `sharded` in an app: without and with ``post=``."""

    def process(shard: "Shard") -> None:
        call = Calls(app, shard.job.kwargs["each"], shard).call
        for item in shard:
            call(item)

    def post(job: Job, results: Iterator[Any], errors: Iterable[ItemError]) -> Any:
        signature = signature_of(app, job.kwargs["post"])
        first = () if signature.immutable else ([*results],)
        return signature.type(*first, *signature.args, **signature.kwargs)

    each = Processor(
        name=EACH, process=process, key=_key, options=Options(), calls=_called
    )
    return each, replace(each, name=EACH_THEN, post_process=post)


def _called(kwargs: Mapping[str, Any]) -> list[str]:
    return [str(kwargs["each"]["task"])]


def _key(*_: Any, key: Any = None, **__: Any) -> Any:
    return key


class EachTask(ShardedTask):
    """The task behind `sharded`: each call brings its options."""

    abstract = True

    def options_of(self, kwargs: Mapping[str, Any]) -> Options:
        """Return the options of the `sharded` call."""
        return applied(self.processor.options, kwargs.get("options") or {})

    def apply_async(
        self, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> "ShardedResult":
        """Send the call of a sharded task, by default along its called task's route."""
        if not WHERE & options.keys():
            options = {**_route(self.app, (kwargs or {}).get("each") or {}), **options}
        return super().apply_async(args, kwargs, *rest, **options)


def _route(app: Any, called: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the app's routes, or else the task itself, send a task's messages.

    Its workers may be the only ones that know it, or have what it needs.
    """
    name = called.get("task")
    task = app.tasks.get(name)
    own = {key: getattr(task, key, None) for key in (*PLACES, "priority")}
    attributes = {key: value for key, value in own.items() if value is not None}
    routed = app.amqp.router.lookup_route(name, (), {}, attributes, task) or {}
    route = {**attributes, **routed}
    if hasattr(route.get("queue"), "name"):
        route["queue"] = route["queue"].name
    return {key: route[key] for key in (*PLACES, "priority") if key in route}
