"""Links, stamps, and tasks that are replaced.

Under task_always_eager Celery itself cannot replace a task, nor call several links of
which one is a chain.
"""

from __future__ import annotations

from typing import Any

from celery import chord
from celery.canvas import StampingVisitor  # type: ignore[attr-defined]

from celery_pecker.kernel.clock import new_tag
from tests.integration.sharding.canvas.shapes.table import (
    Scene,
    of_workers,
    shape,
)


@shape
def a_link(scene: Scene) -> None:
    """A link."""
    cast, key = scene.cast, new_tag()
    assert scene.run(cast.rows.s([1, 2]).set(link=cast.note.s(key))) == 6
    assert scene.noted(key) == [6]


@of_workers
def two_links(scene: Scene) -> None:
    """Two links."""
    cast, key = scene.cast, new_tag()
    one = cast.rows.s([1, 2])
    one.link(cast.note.s(key))
    one.link(cast.add.s(1) | cast.note.s(key))
    assert scene.run(one) == 6
    assert sorted(scene.noted(key, 2)) == [6, 7]


@shape
def a_link_to_a_sharded_task(scene: Scene) -> None:
    """A link to a sharded task."""
    cast, key = scene.cast, new_tag()
    callback = cast.planned.s().set(link=cast.note.s(key))
    assert scene.run(cast.add.s(1, 2), link=callback) == 3
    assert scene.noted(key) == [6]


@shape
def a_link_with_items(scene: Scene) -> None:
    """A link with items."""
    cast, key = scene.cast, new_tag()
    callback = cast.rows.si([1, 2]).set(link=cast.note.s(key))
    assert scene.run(cast.add.s(1, 2), link=callback) == 3
    assert scene.noted(key) == [6]


@shape
def an_errback_that_is_not_needed(scene: Scene) -> None:
    """An errback that is not needed."""
    cast = scene.cast
    result = cast.rows.s([1, 2]).set(link_error=cast.saw_id.s()).apply_async()
    assert scene.value(result) == 6
    assert cast.notes(f"errback:{result.id}") == []


class Stamped(StampingVisitor):
    """Stamps whatever there is."""

    def on_signature(self, sig: Any, **_: Any) -> dict[str, Any]:
        """Return the stamp."""
        del sig
        return {"batch": "b1"}


@of_workers
def stamps_go_on(scene: Scene) -> None:
    """Stamps go on."""
    cast = scene.cast
    canvas = cast.planned.s(3) | cast.stamps.s()
    canvas.stamp(visitor=Stamped())
    assert scene.run(canvas)["batch"] == "b1"


@of_workers
def stamps_with_items(scene: Scene) -> None:
    """Stamps with items."""
    cast, key = scene.cast, new_tag()
    one = cast.rows.s([1, 2]).set(link=cast.stamps.s() | cast.note.s(key))
    one.stamp(visitor=Stamped())
    assert scene.run(one) == 6
    (stamps,) = scene.noted(key)
    assert stamps["batch"] == "b1"


@of_workers
def a_task_that_is_replaced(scene: Scene) -> None:
    """A task that is replaced."""
    assert scene.value(scene.cast.replaced.delay([1, 2])) == 6


@of_workers
def replaced_in_a_chain(scene: Scene) -> None:
    """Replaced in a chain."""
    cast = scene.cast
    assert scene.run(cast.listing.s(3) | cast.replaced.s() | cast.add.s(1)) == 7


@of_workers
def replaced_by_a_chain(scene: Scene) -> None:
    """Replaced by a chain."""
    assert scene.value(scene.cast.replaced_bound.delay(3)) == 7


@of_workers
def replaced_in_a_header(scene: Scene) -> None:
    """Replaced in a header."""
    cast = scene.cast
    canvas = chord([cast.replaced.s([1, 2]), cast.add.s(1, 1)], cast.total.s())
    assert scene.run(canvas) == 8


@of_workers
def no_result_wanted(scene: Scene) -> None:
    """No result wanted."""
    cast, key = scene.cast, new_tag()
    one = cast.rows.s([1, 2]).set(link=cast.note.s(key))
    result = one.apply_async(ignore_result=True)
    assert scene.noted(key) == [6]
    # The ledger knows that the job ended; the backend was not given its result.
    assert result.backend.get_task_meta(result.id)["status"] == "PENDING"
