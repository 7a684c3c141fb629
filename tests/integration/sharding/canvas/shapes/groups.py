"""A sharded job in groups and chords."""

from __future__ import annotations

from celery import chord, group

from celery_pecker.kernel.clock import new_tag
from celery_sharding import (
    sharded,
)
from tests.integration.sharding.canvas.shapes.table import (
    Scene,
    shape,
)


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
