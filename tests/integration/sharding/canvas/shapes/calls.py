"""What a plain task is to a job that calls it for each item."""

from __future__ import annotations

from celery import chain

from celery_sharding import Isolate, sharded
from celery_sharding.errors import Misconfigured
from tests.integration.sharding.canvas.shapes.table import Scene, shape


@shape
def a_task_that_asks_for_retries(scene: Scene) -> None:
    """Its items are tried again as it says, each under an id of its own."""
    cast = scene.cast
    found = scene.run(sharded(cast.retried.s(), [1, 2], post=cast.ident.s()))
    assert sorted(one[:2] for one in found) == [[1, 2], [2, 2]]
    assert len({one[2] for one in found}) == 2


@shape
def an_item_that_is_replaced(scene: Scene) -> None:
    """It is refused by its name: nothing is sent, and no value is missing."""
    cast = scene.cast
    result = sharded(cast.replaced_each, [1, 2], post=cast.total).delay()
    assert "cast.replaced_each called self.replace()" in str(scene.failure(result))


@shape
def a_task_that_fails(scene: Scene) -> None:
    """The job does: nobody is handed the results of a part as if they were all."""
    cast = scene.cast
    for post in (cast.ident.s(), None):
        error = scene.failure(sharded(cast.boom.s(), [1, 2], post=post).delay())
        assert type(error).__name__ == "TooManyFailed"
        assert "boom" in str(error)
    borne = sharded(cast.boom.s(), [1, 2], post=cast.ident.s(), on_error=Isolate())
    assert scene.run(borne) == []


@shape
def items_of_its_own_in_a_chain(scene: Scene) -> None:
    """What the step before returned is not taken for them; unless there are none."""
    cast = scene.cast
    each = sharded(cast.add.s(1), [1, 2], post=cast.total.s())
    assert scene.run(chain(cast.listing.s(4), each)) == 5
    from_before = sharded(cast.add.s(1), post=cast.total.s())
    assert scene.run(chain(cast.listing.s(4), from_before)) == 10


@shape
def items_that_come_second(scene: Scene) -> None:
    """They would be dropped."""
    cast = scene.cast
    assert scene.run(chain(cast.add.s(1, 2), cast.rows.si([1, 2]))) == 6
    result = chain(cast.listing.s(4), cast.rows.s([1, 2])).delay()
    error = scene.failure(result)
    assert type(error).__name__ == Misconfigured.__name__
    assert ".si" in str(error)


@shape
def an_iterator_that_is_called_twice(scene: Scene) -> None:
    """Its signature has the items, and so have its copies."""
    cast = scene.cast
    one = cast.rows.s(iter([1, 2]))
    assert [scene.run(one), scene.run(one), scene.run(one.clone())] == [6, 6, 6]
    canvas = chain(cast.rows.s(iter([1, 2])), cast.add.s(1))
    assert [scene.run(canvas), scene.run(canvas)] == [7, 7]
