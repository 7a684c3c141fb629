"""The tasks that the shapes of the conformance table are made of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery, Task

from celery_sharding import FailFast, Isolate, Retry, ShardedTask, Sharding

BAD = 13
"""An item that fails, in every task that looks at items."""
OURS = ("pecker_", "sharding_")
CONF = "SHARDING_CAST"
"""Where a worker finds its configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """An app and its tasks."""

    app: Celery
    rows: ShardedTask
    """Items doubled; Post sums them."""
    planned: ShardedTask
    """As rows; its items are those below a number."""
    bare: ShardedTask
    """Without Post."""
    listed: ShardedTask
    """Its Post returns the list."""
    strict: ShardedTask
    """The first failed item ends it."""
    patient: ShardedTask
    """Tries failed items again."""
    refuses: ShardedTask
    """Its Post raises."""
    slow: ShardedTask
    """Waits for a word before its item ends: to be cancelled meanwhile."""
    mended: ShardedTask
    """Its items fail while they are text that nobody has mended."""
    keyed: ShardedTask
    """One job for each second argument."""
    add: Any
    total: Any
    listing: Any
    ident: Any
    boom: Any
    note: Any
    """Writes a value down under a key."""
    stamps: Any
    """Returns its own stamps."""
    replaced: Any
    """Is replaced by a sharded task."""
    replaced_bound: Any
    retried: Any
    """Asks to be tried again until its third attempt; returns what it was called by."""
    replaced_each: Any
    """Is replaced by a plain task."""
    saw_id: Any
    """An errback of one argument."""
    saw_error: Any
    """An errback of three."""
    stranger: Celery
    """An app on the same broker that has never heard of sharded jobs."""
    notes: Callable[[str], list[Any]]
    """What was noted under a key."""
    tell: Callable[[str, Any], None]


def cast(conf: Mapping[str, Any], *, notes: str | None = None) -> Cast:  # noqa: C901, PLR0915  # many small tasks
    """Return an app of that configuration, with all tasks.

    ``notes``: the Redis where notes are written; None: in this process.
    """
    app = Celery("cast", set_as_current=False)
    app.conf.update(conf)
    sharding = Sharding(app)
    kept: dict[str, list[Any]] = {}
    client = redis.Redis.from_url(notes) if notes else None

    def tell(key: str, value: Any) -> None:
        if client is None:
            kept.setdefault(key, []).append(value)
        else:
            client.rpush(f"note:{key}", json.dumps(value))

    def noted(key: str) -> list[Any]:
        if client is None:
            return kept.get(key, [])
        found: Any = client.lrange(f"note:{key}", 0, -1)
        return [json.loads(value) for value in found]

    def double(shard: Any) -> None:
        for item in shard:
            if item == BAD:
                message = "thirteen"
                raise ValueError(message)
            shard.ok(item * 2)

    def below(_job: Any, last: int) -> list[int]:
        return [*range(last)]

    def summed(_job: Any, results: Iterator[int], _errors: Any) -> int:
        return sum(results)

    def declare(name: str, *, post: Any = None, pre: Any = None, **given: Any) -> Any:
        task = sharding.task(name=f"cast.{name}", size=(1, 2), **given)(double)
        if post is not None:
            task.post_process(post)
        if pre is not None:
            task.pre_process(pre)
        return task

    def in_list(_job: Any, results: Iterator[Any], _errors: Any) -> list[Any]:
        return sorted(results)

    def refusing(_job: Any, _results: Any, _errors: Any) -> None:
        message = "post refuses"
        raise ValueError(message)

    @sharding.task(name="cast.patient", size=(1, 2), on_error=Retry(2, backoff=0.0))
    def patient(shard: Any) -> None:
        for item in shard:
            if item == BAD and shard.attempt < 3:
                message = "not yet"
                raise ValueError(message)
            shard.ok(item * 2)

    patient.post_process(summed)

    @sharding.task(name="cast.slow", size=(1, 1))
    def slow(shard: Any) -> None:
        for item in shard:
            tell(f"slow:{item}", "began")
            if client is not None:
                client.blpop([f"note:go:{item}"], timeout=20)
            shard.ok(item)

    slow.post_process(in_list)

    @sharding.task(name="cast.mended", size=(1, 1))
    def mended(shard: Any) -> None:
        for item in shard:
            if isinstance(item, str) and not noted(f"mended:{item}"):
                message = "not mended yet"
                raise ValueError(message)
            shard.ok(item)

    @mended.post_process
    def by_kind(_job: Any, results: Iterator[Any], _errors: Any) -> list[Any]:
        return sorted(results, key=str)

    stranger = Celery("stranger", set_as_current=False)
    stranger.conf.update(
        {key: it for key, it in conf.items() if not key.startswith(OURS)}
    )

    def task(name: str, **given: Any) -> Callable[[Callable[..., Any]], Any]:
        return app.task(name=f"cast.{name}", shared=False, **given)

    @task("add")
    def add(one: int, other: int = 0) -> int:
        return one + other

    @task("total")
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @task("listing")
    def listing(last: int) -> list[int]:
        return [*range(last)]

    @task("ident")
    def ident(value: Any = None) -> Any:
        return value

    @task("boom")
    def boom(*_: Any) -> None:
        message = "boom"
        raise RuntimeError(message)

    @task("note")
    def note(value: Any, key: str) -> Any:
        tell(key, value)
        return value

    @task("stamps", bind=True)
    def stamps(self: Task[..., Any], *_: Any) -> Any:
        return self.request.stamps

    @task("replaced", bind=True)
    def replaced(self: Task[..., Any], items: list[int]) -> Any:
        return self.replace(made.rows.s(items))

    @task("replaced_bound", bind=True)
    def replaced_bound(self: Task[..., Any], last: int) -> Any:
        return self.replace(made.planned.s(last) | made.add.s(1))

    @task("retried", bind=True, autoretry_for=(KeyError,), retry_backoff=0.01)
    def retried(self: Task[..., Any], item: int) -> Any:
        if self.request.retries == 0:
            raise self.retry(countdown=0.01)
        if self.request.retries == 1:
            raise KeyError(item)
        return [item, self.request.retries, self.request.id]

    @task("replaced_each", bind=True)
    def replaced_each(self: Task[..., Any], item: int) -> Any:
        return self.replace(made.add.s(item, 1))

    @task("saw_id")
    def saw_id(task_id: str) -> None:
        tell(f"errback:{task_id}", "id")

    @task("saw_error")
    def saw_error(request: Any, error: Any, _traceback: Any) -> None:
        tell(f"errback:{request.id}", repr(error))

    made = Cast(
        app=app,
        rows=declare("rows", post=summed),
        planned=declare("planned", post=summed, pre=below),
        bare=declare("bare", on_error=Isolate()),
        listed=declare("listed", post=in_list),
        strict=declare("strict", post=summed, on_error=FailFast()),
        patient=patient,
        refuses=declare("refuses", post=refusing),
        slow=slow,
        mended=mended,
        stranger=stranger,
        keyed=declare("keyed", post=summed, key="{1}"),
        add=add,
        total=total,
        listing=listing,
        ident=ident,
        boom=boom,
        note=note,
        stamps=stamps,
        replaced=replaced,
        replaced_bound=replaced_bound,
        retried=retried,
        replaced_each=replaced_each,
        saw_id=saw_id,
        saw_error=saw_error,
        notes=noted,
        tell=tell,
    )
    return made


if CONF in os.environ:
    told = json.loads(os.environ[CONF])
    app = cast(told["conf"], notes=told["notes"]).app
