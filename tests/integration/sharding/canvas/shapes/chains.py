"""A sharded job in a chain."""

from __future__ import annotations

from celery import chain

from celery_sharding import (
    sharded,
)
from tests.integration.sharding.canvas.shapes.table import (
    Scene,
    shape,
)


@shape
def first_of_a_chain(scene: Scene) -> None:
    """First of a chain."""
    assert scene.run(scene.cast.rows.s([1, 2]) | scene.cast.add.s(1)) == 7


@shape
def middle_of_a_chain(scene: Scene) -> None:
    """Middle of a chain."""
    cast = scene.cast
    assert scene.run(cast.listing.s(3) | cast.rows.s() | cast.add.s(1)) == 7


@shape
def last_of_a_chain(scene: Scene) -> None:
    """Last of a chain."""
    assert scene.run(scene.cast.add.s(2, 2) | scene.cast.planned.s()) == 12


@shape
def two_in_a_chain(scene: Scene) -> None:
    """Two in a chain."""
    cast = scene.cast
    assert scene.run(cast.planned.s(3) | cast.planned.s()) == 30
    assert scene.run(cast.listed.s([1, 2]) | cast.rows.s()) == 12


@shape
def items_in_a_later_step(scene: Scene) -> None:
    """Items in a later step."""
    cast = scene.cast
    canvas = cast.add.s(1, 1) | cast.rows.si([1, 2]) | cast.add.s(1)
    assert scene.run(canvas) == 7


@shape
def a_chain_of_chains(scene: Scene) -> None:
    """A chain of chains."""
    cast = scene.cast
    one = chain(cast.listing.s(3), cast.rows.s())
    assert scene.run(chain(one, chain(cast.add.s(1), cast.planned.s()))) == 42


@shape
def any_task_in_a_chain(scene: Scene) -> None:
    """Any task in a chain."""
    cast = scene.cast
    one = sharded(cast.add.s(5), [1, 2, 3], post=cast.total.s())
    assert scene.run(one | cast.add.s(1)) == 22


@shape
def parents_of_a_chain(scene: Scene) -> None:
    """Parents of a chain."""
    cast = scene.cast
    result = (cast.listing.s(3) | cast.rows.s() | cast.add.s(1)).apply_async()
    assert scene.value(result) == 7
    assert result.parent.get() == 6
    assert result.parent.progress.done == 3
