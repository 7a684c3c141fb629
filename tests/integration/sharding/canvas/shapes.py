"""The conformance table: a row for each place of a sharded job in a canvas."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from celery import chain, chord, group, signature
from celery.canvas import StampingVisitor  # type: ignore[attr-defined]
from celery.exceptions import TaskRevokedError

from celery_pecker.clock import SYSTEM, new_tag
from celery_pecker.testing import eventually
from celery_sharding import (
    Isolate,
    JobCancelled,
    KeyRange,
    ShardedResult,
    TooManyFailed,
    layers,
    sharded,
)
from tests.integration.sharding.canvas.cast import BAD, Cast

PATIENCE = 40.0
"""Seconds until a result counts as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where shapes are played."""

    cast: Cast
    eager: bool = False
    queue: str = ""

    def run(self, canvas: Any, **options: Any) -> Any:
        """Return the value that a canvas came to."""
        return self.value(canvas.apply_async(**options))

    def value(self, result: Any) -> Any:
        """Return what it came to."""
        return result.get(timeout=PATIENCE)

    def failure(self, result: Any) -> Exception:
        """Return what it failed with."""
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            result.get(timeout=PATIENCE)
        return caught.value

    def state(self, result: Any, wanted: str) -> None:
        """It is in that state, or comes to it."""
        eventually(lambda: result.state == wanted, PATIENCE, f"{wanted} {result!r}")

    def noted(self, key: str, many: int = 1) -> list[Any]:
        """Return what was noted, once that many are there."""
        return (
            eventually(
                lambda: len(found := self.cast.notes(key)) >= many and found,
                PATIENCE,
                f"{many} notes under {key}",
            )
            or []
        )


Shape = Callable[[Scene], None]
SHAPES: dict[str, Shape] = {}
EAGER: set[str] = set()
"""Names of shapes that are played without a worker too."""


def shape(played: Shape) -> Shape:
    """Enter a shape that is played in workers and in the caller."""
    EAGER.add(played.__name__)
    return of_workers(played)


def of_workers(played: Shape) -> Shape:
    """Enter a shape that is played in workers alone."""
    SHAPES[played.__name__] = played
    return played


# By itself


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


# In a chain


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


# In groups and chords


@shape
def a_group(scene: Scene) -> None:
    """A group."""
    cast = scene.cast
    assert scene.run(group(cast.rows.s([1, 2]), cast.planned.s(3))) == [6, 6]


@shape
def a_group_with_others(scene: Scene) -> None:
    """A group with others."""
    cast = scene.cast
    assert scene.run(group(cast.add.s(1, 1), cast.rows.s([1, 2]))) == [2, 6]


@shape
def a_group_of_a_generator(scene: Scene) -> None:
    """A group of a generator."""
    cast = scene.cast
    assert scene.run(group(cast.planned.s(last) for last in (2, 3))) == [2, 6]


@shape
def a_group_with_partial_items(scene: Scene) -> None:
    """A group with partial items."""
    cast = scene.cast
    result = group(cast.rows.s(), cast.listed.s()).apply_async(([1, 2],))
    assert scene.value(result) == [6, [2, 4]]


@shape
def a_group_in_a_group(scene: Scene) -> None:
    """A group in a group."""
    cast = scene.cast
    canvas = group(group(cast.planned.s(2), cast.planned.s(3)), cast.rows.s([1]))
    assert scene.run(canvas) in ([2, 6, 2], [[2, 6], 2])


@shape
def a_group_after_a_step(scene: Scene) -> None:
    """A group after a step."""
    cast = scene.cast
    canvas = cast.add.s(1, 2) | group(cast.planned.s(), cast.add.s(1))
    assert scene.run(canvas) == [6, 4]


@shape
def a_group_between_steps(scene: Scene) -> None:
    """A group between steps."""
    cast = scene.cast
    parts = group(cast.planned.s(), cast.planned.s())
    assert scene.run(cast.add.s(1, 2) | parts | cast.total.s()) == 12


@shape
def header_of_a_chord(scene: Scene) -> None:
    """Header of a chord."""
    cast = scene.cast
    assert (
        scene.run(chord([cast.rows.s([1, 2]), cast.planned.s(3)], cast.total.s())) == 12
    )


@shape
def header_of_one(scene: Scene) -> None:
    """Header of one."""
    cast = scene.cast
    assert scene.run(chord([cast.rows.s([1, 2])], cast.total.s())) == 6


@shape
def header_with_others(scene: Scene) -> None:
    """Header with others."""
    cast = scene.cast
    assert (
        scene.run(chord([cast.add.s(1, 1), cast.rows.s([1, 2])], cast.total.s())) == 8
    )


@shape
def body_of_a_chord(scene: Scene) -> None:
    """Body of a chord."""
    cast = scene.cast
    assert scene.run(chord([cast.add.s(1, 1), cast.add.s(2, 1)], cast.rows.s())) == 10


@shape
def body_with_items(scene: Scene) -> None:
    """Body with items."""
    cast = scene.cast
    canvas = chord([cast.add.s(1, 1), cast.add.s(2, 1)], cast.rows.si([1, 2]))
    assert scene.run(canvas) == 6


@shape
def header_and_body(scene: Scene) -> None:
    """Header and body."""
    cast = scene.cast
    assert scene.run(chord([cast.rows.s([1]), cast.planned.s(3)], cast.rows.s())) == 16


@shape
def a_chord_between_steps(scene: Scene) -> None:
    """A chord between steps."""
    cast = scene.cast
    parts = chord([cast.planned.s(), cast.add.s(1)], cast.rows.s())
    assert scene.run(cast.add.s(1, 2) | parts | cast.add.s(1)) == 21


@shape
def a_chain_in_a_header(scene: Scene) -> None:
    """A chain in a header."""
    cast = scene.cast
    header = [cast.listing.s(3) | cast.rows.s(), cast.rows.s([1]) | cast.add.s(1)]
    assert scene.run(chord(header, cast.total.s())) == 9


@shape
def a_chain_as_body(scene: Scene) -> None:
    """A chain as body."""
    cast = scene.cast
    canvas = chord([cast.add.s(1, 1), cast.add.s(1, 2)], cast.rows.s() | cast.add.s(1))
    assert scene.run(canvas) == 11


@shape
def a_chord_in_a_header(scene: Scene) -> None:
    """A chord in a header."""
    cast = scene.cast
    inner = chord([cast.planned.s(2), cast.planned.s(3)], cast.rows.s())
    assert scene.run(chord([inner, cast.add.s(1, 1)], cast.total.s())) == 18


@shape
def any_task_in_a_header(scene: Scene) -> None:
    """Any task in a header."""
    cast = scene.cast
    one = sharded(cast.add.s(5), [1, 2], post=cast.total.s())
    assert scene.run(chord([one, cast.add.s(1, 1)], cast.total.s())) == 15


@shape
def followers_in_a_group(scene: Scene) -> None:
    """Followers in a group."""
    key = new_tag()
    keyed = scene.cast.keyed
    canvas = group(keyed.s([1, 2], key), keyed.s([1, 2], key))
    assert scene.run(canvas | scene.cast.total.s()) == 12


# Links, stamps, replace. (Under task_always_eager Celery itself cannot replace a task,
# nor call several links of which one is a chain.)


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
    assert result.state == "PENDING"


# What fails


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
    eventually(lambda: result.progress.done == 1, PATIENCE, "the first is done")
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
