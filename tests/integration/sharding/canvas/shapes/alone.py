"""A sharded job by itself."""

from __future__ import annotations

import json

from celery import signature

from celery_pecker.kernel.clock import new_tag
from celery_sharding import (
    KeyRange,
    layers,
    sharded,
)
from tests.integration.sharding.canvas.cast import BAD
from tests.integration.sharding.canvas.shapes.table import (
    Scene,
    of_workers,
    shape,
)


@shape
def a_list(scene: Scene) -> None:
    """A list."""
    assert scene.value(scene.cast.rows.delay([1, 2, 3])) == 12


@shape
def a_tuple(scene: Scene) -> None:
    """A tuple."""
    assert scene.value(scene.cast.rows.delay((1, 2, 3))) == 12


@shape
def an_iterator(scene: Scene) -> None:
    """An iterator."""
    assert scene.value(scene.cast.rows.delay(iter([1, 2, 3]))) == 12


@shape
def no_items(scene: Scene) -> None:
    """No items."""
    assert scene.value(scene.cast.rows.delay([])) == 0


@shape
def layers_of_items(scene: Scene) -> None:
    """Layers of items."""
    result = scene.cast.rows.delay([[1, 2], [3], [4, 5]])
    assert scene.value(result) == 30
    assert [one.total for one in result.progress.layers] == [2, 1, 2]


@shape
def sorted_layers(scene: Scene) -> None:
    """Sorted layers."""
    given = layers.toposort(
        [3, 2, 1], key=lambda item: item, after=lambda item: item - 1
    )
    assert scene.value(scene.cast.rows.delay(given)) == 12


@shape
def a_source(scene: Scene) -> None:
    """A source."""
    assert scene.value(scene.cast.rows.delay(KeyRange(1, 4))) == 20


@shape
def sources_as_layers(scene: Scene) -> None:
    """Sources as layers."""
    given = [KeyRange(1, 2), KeyRange(3, 4)]
    assert scene.value(scene.cast.rows.delay(given)) == 20


@shape
def pre_process(scene: Scene) -> None:
    """Pre process."""
    assert scene.value(scene.cast.planned.delay(4)) == 12


@shape
def pre_process_by_keyword(scene: Scene) -> None:
    """Pre process by keyword."""
    assert scene.value(scene.cast.planned.apply_async(kwargs={"last": 4})) == 12


@shape
def without_post(scene: Scene) -> None:
    """Without post."""
    told = scene.value(scene.cast.bare.delay([1, BAD, 3]))
    assert told == {"total": 3, "done": 2, "failed": 1}


@shape
def a_signature(scene: Scene) -> None:
    """A signature."""
    assert scene.run(scene.cast.rows.s([1, 2, 3])) == 12


@shape
def an_immutable_signature(scene: Scene) -> None:
    """An immutable signature."""
    assert scene.run(scene.cast.rows.si([1, 2, 3])) == 12


@shape
def a_partial_signature(scene: Scene) -> None:
    """A partial signature."""
    assert scene.value(scene.cast.rows.s().delay([1, 2, 3])) == 12


@shape
def json_with_items(scene: Scene) -> None:
    """Json with items."""
    told = json.loads(json.dumps(scene.cast.rows.s([1, 2, 3])))
    assert scene.run(signature(told, app=scene.cast.app)) == 12


@shape
def json_of_a_chain(scene: Scene) -> None:
    """Json of a chain."""
    cast = scene.cast
    told = json.loads(json.dumps(cast.listing.s(3) | cast.rows.s() | cast.add.s(1)))
    assert scene.run(signature(told, app=cast.app)) == 7


@of_workers
def a_queue(scene: Scene) -> None:
    """A queue."""
    assert scene.run(scene.cast.rows.s([1, 2]).set(queue=scene.queue)) == 6


@of_workers
def a_priority(scene: Scene) -> None:
    """A priority."""
    assert scene.run(scene.cast.rows.s([1, 2]).set(priority=3)) == 6


@of_workers
def a_countdown(scene: Scene) -> None:
    """A countdown."""
    assert scene.run(scene.cast.rows.s([1, 2]).set(countdown=0.5)) == 6


@of_workers
def an_expiry_that_is_kept(scene: Scene) -> None:
    """An expiry that is kept."""
    assert scene.run(scene.cast.rows.s([1, 2]).set(expires=60)) == 6


@shape
def any_task_for_each_item(scene: Scene) -> None:
    """Any task for each item."""
    told = scene.run(sharded(scene.cast.add.s(5), [1, 2, 3], size=(1, 2)))
    assert told == {"total": 3, "done": 3, "failed": 0}


@shape
def any_task_and_a_post(scene: Scene) -> None:
    """Any task and a post."""
    cast = scene.cast
    assert scene.run(sharded(cast.add.s(5), [1, 2, 3], post=cast.total.s())) == 21


@shape
def one_key_one_job(scene: Scene) -> None:
    """One key one job."""
    key = new_tag()
    first = scene.cast.keyed.delay([1, 2], key)
    again = scene.cast.keyed.delay([1, 2], key)
    assert (scene.value(first), scene.value(again)) == (6, 6)
