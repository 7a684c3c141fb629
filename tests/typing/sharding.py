"""The public API of sharded jobs as a user writes it: read by mypy, run by nobody.

A line that must not type-check carries an ignore, which mypy reports as unused on the
day when it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

from celery import Celery, chain, chord, group

from celery_sharding import (
    Code,
    FailFast,
    File,
    Isolate,
    ItemError,
    Job,
    KeyRange,
    Progress,
    Query,
    Retry,
    Shard,
    ShardedResult,
    ShardedTask,
    Sharding,
    layers,
    sharded,
)

app = Celery("proj")
sharding = Sharding(app, lease=10.0, inline_bytes=500_000)

# A task


@sharding.task(
    size=(50, 2000),
    concurrency=64,
    on_error=Isolate(max_failed="1%"),
    key="upload-{0}",
    queue="imports",
)
def import_rows(shard: Shard) -> None:
    """Save each row."""
    for row in shard:
        shard.ok(row)


assert_type(import_rows, ShardedTask)


@import_rows.pre_process
def plan(job: Job, path: str) -> layers.Layers:
    """Return rows in layers."""
    return layers.toposort([job.id, path], key="id", after="parent_id")


@import_rows.notify(every=0.1)
def tell(job: Job, progress: Progress) -> None:
    """Say how far it is."""
    print(job.id, progress.percent)  # noqa: T201  # as a user would


@import_rows.post_process
def report(job: Job, results: Iterator[Any], errors: Iterator[ItemError]) -> int:
    """Return how many went well."""
    del job, errors
    return sum(1 for _ in results)


@sharding.task
def plain(shard: Shard) -> None:
    """Call a function for each item."""
    shard.each(print)


assert_type(plain, ShardedTask)

# Its result

result = import_rows.delay("rows.csv")
assert_type(result, ShardedResult)
assert_type(result.progress, Progress)
assert_type(result.retry_failed(), int)
assert_type(result.rerun(shards=[7]), int)
assert_type(result.errors(), Iterator[ItemError])
assert_type(result.set(concurrency=16, max_failed="2%"), ShardedResult)
assert_type(ShardedResult.restore("id", app), ShardedResult)
assert_type(plain.apply_async(([1],), sharding={"concurrency": 2}), ShardedResult)
for row in result.shards(status=Code.FAILED):
    assert_type(row.code, Code)
result.pause()
result.resume()
result.cancel()
result.set("fast")  # type: ignore[call-arg, arg-type]  # by name

# In canvases


@app.task
def one(item: int) -> int:
    """Any task."""
    return item


each = sharded(one.s(), KeyRange(1, 100), size=(1, 10), on_error=Retry(3), post=one.s())
chain(one.s(1), import_rows.s(), each).delay()
chord(group(import_rows.s("a"), plain.s([1, 2])), one.s()).delay()
plain.delay(File("rows.jsonl", format="jsonl"))
plain.delay(Query("select id from rows", key="id", dsn="rows_dsn"))
assert_type(sharding.task(print, on_error=FailFast()), ShardedTask)
