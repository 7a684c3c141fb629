"""The sharded task that stands behind `sharded`: a call of any task for each item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_sharding.canvas.calling import Calls, signature_of
from celery_sharding.canvas.overrides import applied
from celery_sharding.canvas.signature import EACH, EACH_THEN
from celery_sharding.canvas.task import WHERE, ShardedTask
from celery_sharding.model import ItemError, Job, Options
from celery_sharding.processor import Processor

if TYPE_CHECKING:
    from celery_sharding.canvas.result import ShardedResult
    from celery_sharding.runner import Shard

PLACES = ("queue", "exchange", "routing_key")
"""What of a route says where."""


def processors(app: Celery) -> tuple[Processor, Processor]:
    """Return what stands behind `sharded` in an app: without and with ``post=``."""

    def process(shard: Shard) -> None:
        call = Calls(app, shard.job.kwargs["each"], shard).call
        for item in shard:
            call(item)

    def post(job: Job, results: Iterator[Any], errors: Iterable[ItemError]) -> Any:
        del errors
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
    ) -> ShardedResult:
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
