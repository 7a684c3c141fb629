"""What is done to a job while it runs, and after."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery import chord
from celery.exceptions import TaskRevokedError

from celery_pecker.kernel.clock import SYSTEM, new_tag
from celery_pecker.testing import eventually
from celery_sharding import (
    Isolate,
    JobCancelled,
    ShardedResult,
    TooManyFailed,
)
from tests.integration.sharding.canvas.cast import BAD
from tests.integration.sharding.canvas.shapes.table import (
    TIMEOUT,
    Scene,
    of_workers,
    shape,
)

# What is done to a job while it runs, and after


@shape
def options_of_a_call(scene: Scene) -> None:
    """Options of a call."""
    result = scene.cast.rows.apply_async(
        ([1, BAD, 3],), sharding={"on_error": Isolate(max_failed=0)}
    )
    assert isinstance(scene.failure(result), TooManyFailed)


@of_workers
def paused_and_resumed(scene: Scene) -> None:
    """Paused and resumed."""
    cast, first, second = scene.cast, new_tag(), new_tag()
    result = cast.slow.apply_async(([first, second],), sharding={"concurrency": 1})
    scene.noted(f"slow:{first}")
    result.pause()
    cast.tell(f"go:{first}", "on")
    eventually(lambda: result.progress.done == 1, TIMEOUT, "the first is done")
    assert result.progress.paused
    assert cast.notes(f"slow:{second}") == []
    result.set(concurrency=2, max_failed="50%")
    result.resume()
    cast.tell(f"go:{second}", "on")
    assert scene.value(result) == sorted([first, second])


@of_workers
def failed_items_again(scene: Scene) -> None:
    """Failed items again."""
    cast, mark, key = scene.cast, new_tag(), new_tag()
    result = cast.mended.apply_async(([1, mark, 3],), link=cast.note.s(key))
    assert scene.value(result) == [1, 3]
    assert [error.item for error in result.errors()] == [mark]
    cast.tell(f"mended:{mark}", "now")
    assert result.retry_failed() == 1
    assert len(scene.value(result)) == 3
    assert [*result.errors()] == []
    # What follows had its turn.
    assert scene.noted(key) == [[1, 3]]


@of_workers
def shards_again(scene: Scene) -> None:
    """Shards again."""
    result = scene.cast.rows.delay([1, 2, 3])
    assert scene.value(result) == 12
    numbers = [row.shard for row in result.shards(status=301)]
    assert result.rerun(shards=numbers[:1]) >= 1
    assert scene.value(result) == 12
    assert result.progress.done == 3


@of_workers
def restored_by_its_id(scene: Scene) -> None:
    """Restored by its id."""
    cast = scene.cast
    called = cast.rows.delay([1, BAD, 3])
    result = ShardedResult.restore(called.id, cast.app)
    assert scene.value(result) == 8
    assert sorted(result.results()) == [2, 6]
    assert (result.progress.total, result.progress.failed) == (3, 1)


@of_workers
def of_a_worker_that_does_not_know_it(scene: Scene) -> None:
    """A plain app sends it by name: its message is all that there is."""
    sent = scene.cast.stranger.send_task("cast.rows", args=([1, 2, 3],))
    assert scene.value(scene.cast.rows.AsyncResult(sent.id)) == 12
    sent = scene.cast.stranger.send_task("cast.planned", args=(1, 2))
    assert "pre_process" in str(scene.failure(sent))


# What is cancelled


def begun(scene: Scene, canvas: Any, item: str) -> Any:
    """Return its result, once its only item is begun."""
    result = canvas.apply_async()
    scene.noted(f"slow:{item}")
    return result


@of_workers
def cancelled(scene: Scene) -> None:
    """Cancelled."""
    item = new_tag()
    result = begun(scene, scene.cast.slow.s([item]), item)
    result.cancel()
    assert isinstance(scene.failure(result), (JobCancelled, TaskRevokedError))
    assert result.state == "REVOKED"
    scene.cast.tell(f"go:{item}", "on")


@of_workers
def cancelled_in_a_chain(scene: Scene) -> None:
    """Cancelled in a chain."""
    cast, item = scene.cast, new_tag()
    result = begun(scene, cast.slow.s([item]) | cast.ident.s() | cast.ident.s(), item)
    result.parent.parent.cancel()
    scene.failure(result)
    cast.tell(f"go:{item}", "on")
    scene.state(result, "REVOKED")
    scene.state(result.parent, "REVOKED")


@of_workers
def cancelled_in_a_header(scene: Scene) -> None:
    """Cancelled in a header."""
    cast, item = scene.cast, new_tag()
    canvas = chord([cast.slow.s([item]), cast.add.s(1, 1)], cast.ident.s())
    result = begun(scene, canvas, item)
    result.parent.results[0].cancel()
    scene.failure(result)
    cast.tell(f"go:{item}", "on")


@of_workers
def cancelled_with_an_errback(scene: Scene) -> None:
    """Cancelled with an errback."""
    cast, item = scene.cast, new_tag()
    canvas = cast.slow.s([item]).set(link_error=cast.saw_id.s())
    result = begun(scene, canvas, item)
    result.revoke()
    scene.failure(result)
    cast.tell(f"go:{item}", "on")
    assert scene.noted(f"errback:{result.id}") == ["id"]


@of_workers
def revoked_by_celery(scene: Scene) -> None:
    """Revoked by celery."""
    cast = scene.cast
    canvas = cast.rows.s([1, 2]).set(countdown=2) | cast.add.s(1)
    result = canvas.apply_async()
    cast.app.control.revoke(result.parent.id)
    scene.state(result.parent, "REVOKED")
    scene.state(result, "REVOKED")
    assert result.parent.progress.outcome == "cancelled"


@of_workers
def an_expiry_that_is_over(scene: Scene) -> None:
    """An expiry that is over."""
    cast = scene.cast
    over = SYSTEM.now() - timedelta(seconds=1)
    result = (cast.rows.s([1, 2]).set(expires=over) | cast.add.s(1)).apply_async()
    scene.failure(result.parent)
    scene.state(result.parent, "REVOKED")
    scene.state(result, "REVOKED")
