"""A sharded job that fails, and what follows it."""

from __future__ import annotations

from typing import Any

from celery import chord, group

from celery_sharding import (
    TooManyFailed,
)
from tests.integration.sharding.canvas.cast import BAD
from tests.integration.sharding.canvas.shapes.table import (
    Scene,
    of_workers,
    shape,
)


@shape
def items_that_fail(scene: Scene) -> None:
    """Items that fail."""
    result = scene.cast.rows.delay([1, BAD, 3])
    assert scene.value(result) == 8
    (error,) = result.errors()
    assert (error.item, error.type, error.message) == (BAD, "ValueError", "thirteen")


@shape
def items_that_are_tried_again(scene: Scene) -> None:
    """Items that are tried again."""
    result = scene.cast.patient.delay([1, BAD, 3])
    assert scene.value(result) == 34
    assert [*result.errors()] == []


@shape
def a_post_that_fails(scene: Scene) -> None:
    """A post that fails."""
    error = scene.failure(scene.cast.refuses.delay([1]))
    assert (type(error), str(error)) == (ValueError, "post refuses")


@shape
def too_many_items_that_fail(scene: Scene) -> None:
    """Too many items that fail."""
    error = scene.failure(scene.cast.strict.delay([1, BAD, 3]))
    assert isinstance(error, TooManyFailed)


@of_workers
def an_errback_of_one_argument(scene: Scene) -> None:
    """An errback of one argument."""
    cast = scene.cast
    result = cast.refuses.s([1]).set(link_error=cast.saw_id.s()).apply_async()
    scene.failure(result)
    assert scene.noted(f"errback:{result.id}") == ["id"]


@of_workers
def an_errback_of_three_arguments(scene: Scene) -> None:
    """An errback of three arguments."""
    cast = scene.cast
    result = cast.refuses.s([1]).set(link_error=cast.saw_error.s()).apply_async()
    scene.failure(result)
    assert scene.noted(f"errback:{result.id}") == ["ValueError('post refuses')"]


@of_workers
def steps_after_a_failure(scene: Scene) -> None:
    """Steps after a failure."""
    cast = scene.cast
    result = (cast.refuses.s([1]) | cast.add.s(1) | cast.add.s(2)).apply_async()
    assert isinstance(scene.failure(result), ValueError)
    scene.state(result, "FAILURE")
    scene.state(result.parent, "FAILURE")


@of_workers
def a_step_that_fails_before(scene: Scene) -> None:
    """A step that fails before."""
    cast = scene.cast
    result = (cast.boom.s() | cast.rows.s() | cast.add.s(1)).apply_async()
    assert isinstance(scene.failure(result), RuntimeError)
    scene.state(result.parent, "FAILURE")


@of_workers
def a_header_that_fails(scene: Scene) -> None:
    """A header that fails."""
    cast = scene.cast
    result = chord(
        [cast.refuses.s([1]), cast.add.s(1, 1)], cast.total.s()
    ).apply_async()
    assert "post refuses" in str(scene.failure(result))
    scene.state(result, "FAILURE")


@of_workers
def a_body_that_fails(scene: Scene) -> None:
    """A body that fails."""
    cast = scene.cast
    result = chord([cast.add.s(1, 1), cast.add.s(1, 2)], cast.refuses.s()).apply_async()
    assert "post refuses" in str(scene.failure(result))


@of_workers
def a_group_in_which_one_fails(scene: Scene) -> None:
    """A group in which one fails."""
    cast = scene.cast
    result: Any = group(cast.rows.s([1, 2]), cast.refuses.s([1])).apply_async()
    good, bad = result.results
    assert scene.value(good) == 6
    assert isinstance(scene.failure(bad), ValueError)


@of_workers
def what_is_no_items_fails_its_own_step(scene: Scene) -> None:
    """What is no items fails its own step."""
    cast = scene.cast
    result = (cast.add.s(1, 2) | cast.rows.s() | cast.add.s(1)).apply_async()
    error = scene.failure(result)
    assert "allowed are a list" in str(error)
    scene.state(result.parent, "FAILURE")
    scene.state(result.parent.parent, "SUCCESS")


@of_workers
def a_step_with_too_many_items(scene: Scene) -> None:
    """A step with too many items."""
    cast = scene.cast
    result = (cast.listing.s(10_000) | cast.rows.s()).apply_async()
    assert "give a Source" in str(scene.failure(result))
    scene.state(result.parent, "SUCCESS")
