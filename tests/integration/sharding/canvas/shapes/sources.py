"""Sources in the arguments of a call; and data that looks like one, which is data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from celery import chain, chord, group, signature
from kombu.utils.json import dumps, loads
from kombu.utils.uuid import uuid

from celery_sharding import File, KeyRange, sharded
from celery_sharding.codec import decode, encode
from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK as LAYERS
from celery_sharding.plan.arguments import HEADER, NAMED
from celery_sharding.plan.data import stored
from tests.integration.sharding.canvas.shapes.table import Scene, of_workers, shape

FORGED: dict[str, Any] = decode(encode(stored(File(__file__))))
"""What a Source is in a header and a row: here it stands where data does."""


@shape
def items_that_look_like_sources(scene: Scene) -> None:
    """In the call, one or all of them, in layers and in a file of JSON."""
    cast, two = scene.cast, [FORGED, {"celery_sharding.source": "keys"}]
    for given, items in (
        (two, two),
        ([FORGED, 1], [FORGED, 1]),
        ([[FORGED], [1]], [FORGED, 1]),
        (json.loads(json.dumps(two)), two),
        (iter(two), two),
    ):
        assert scene.value(cast.mended.delay(given)) == sorted(items, key=str)
    double = sharded(cast.ident.s(), [FORGED], post=cast.ident.s())
    assert scene.run(double) == [FORGED]


@shape
def values_that_look_like_sources(scene: Scene) -> None:
    """What a task returned becomes the argument of the next."""
    cast = scene.cast
    assert scene.run(chain(cast.ident.s([FORGED]), cast.mended.s())) == [FORGED]
    assert scene.run(chord([cast.ident.s(FORGED)], cast.mended.s())) == [FORGED]
    canvas = chain(group(cast.ident.s(FORGED), cast.ident.s([1])), cast.mended.s())
    assert scene.run(canvas) == [[1], FORGED]


@shape
def values_that_are_no_items(scene: Scene) -> None:
    """A job of them fails, and says what is allowed."""
    cast = scene.cast
    for forged in (FORGED, {LAYERS: [FORGED]}, {LAYERS: FORGED}, {NAMED: "rows.csv"}):
        result = chain(cast.ident.s(forged), cast.mended.s()).delay()
        error = scene.failure(result)
        assert type(error).__name__ == "Misconfigured", (forged, error)


@shape
def sources_in_a_canvas(scene: Scene) -> None:
    """They travel beside the arguments."""
    cast, keys = scene.cast, KeyRange(1, 4)
    assert scene.run(chain(cast.add.si(1, 2), cast.rows.si(keys))) == 20
    assert scene.run(chain(cast.rows.s(keys), cast.add.s(1))) == 21
    assert scene.run(group(cast.rows.s(keys), cast.rows.s([1]))) == [20, 2]
    assert scene.run(chord([cast.add.s(1, 2)], cast.rows.si(keys))) == 20
    assert scene.run(cast.rows.s([keys, KeyRange(5, 5)])) == 30
    assert scene.run(cast.rows.s([[1, 2], keys])) == 26
    assert scene.run(sharded(cast.add.s(1), keys, post=cast.total.s())) == 14
    assert cast.rows.s(keys)() == 20


@shape
def a_source_and_headers(scene: Scene) -> None:
    """Headers that are set later, or in the call, leave it where it is."""
    cast, keys = scene.cast, KeyRange(1, 4)
    headers = {"tenant": "blue"}
    assert scene.run(cast.rows.s(keys).set(headers=headers)) == 20
    assert scene.run(cast.rows.s(keys), headers=headers) == 20
    lost = cast.rows.s(keys)
    del lost["options"]["headers"]
    try:
        scene.run(lost)
    except Misconfigured as error:
        assert "KeyRange(1, 4) stood in this call" in str(error)  # noqa: PT017
    else:
        raise AssertionError


@of_workers
def a_source_in_a_link(scene: Scene) -> None:
    """The message of another task brings the signature, header and all."""
    cast = scene.cast
    key = f"linked:{scene.queue}"
    cast.add.apply_async(
        (1, 2),
        link=chain(cast.rows.si(KeyRange(1, 4)), cast.note.s(key)),
    )
    assert scene.noted(key) == [20]


LINES = Path(__file__).with_name("__init__.py")
"""A file that worker and caller have."""


@of_workers
def a_file_in_a_canvas(scene: Scene) -> None:
    """Its call lists it in the ledger, wherever it stands: so its message is believed.

    A signature that became JSON and came back is one of another process.
    """
    cast, file = scene.cast, File(LINES)
    lines = sorted(line * 2 for line in LINES.read_text("utf-8").splitlines())
    assert scene.run(chain(cast.add.si(1, 2), cast.listed.si(file))) == lines
    assert scene.run(chord([cast.add.s(1, 2)], cast.listed.si(file))) == lines
    assert scene.run(cast.listed.s([file, ["1"]])) == sorted([*lines, "11"])
    back = signature(loads(dumps(cast.listed.s(file))), app=cast.app)
    assert scene.run(back) == lines
    key = f"file:{scene.queue}"
    link = chain(cast.listed.si(file), cast.note.s(key))
    cast.add.apply_async((1, 2), link=link)
    assert scene.noted(key) == [lines]


@of_workers
def sources_of_unknown_origin(scene: Scene) -> None:
    """Whatever writes to the broker cannot say which file a worker reads."""
    cast = scene.cast
    forged: dict[str, Any] = {
        "task": "cast.listed",
        "args": [{NAMED: "x"}],
        "kwargs": {},
        "immutable": True,
        "subtask_type": None,
    }
    for document in (
        FORGED,
        {LAYERS: [[1], FORGED]},
        "x",
        {"celery_sharding.source": 1},
    ):
        headers = {HEADER: [[-1, document]]}
        sent = cast.stranger.send_task(
            forged["task"], args=forged["args"], headers=headers
        )
        error = scene.failure(cast.listed.AsyncResult(sent.id))
        assert type(error).__name__ == "Misconfigured", error
        assert "does not list" in str(error)
        link: Any = {**forged, "options": {"headers": headers, "task_id": uuid()}}
        assert scene.value(cast.stranger.send_task("cast.add", (1, 2), link=link)) == 3
        error = scene.failure(cast.listed.AsyncResult(link["options"]["task_id"]))
        assert "does not list" in str(error)


@of_workers
def a_source_that_a_stranger_passes_on(scene: Scene) -> None:
    """It knows nothing of sharded jobs: message and header are all that there is."""
    cast = scene.cast
    told = json.loads(json.dumps(cast.rows.s(KeyRange(1, 4))))
    sent = cast.stranger.signature(told).apply_async()
    assert scene.value(cast.rows.AsyncResult(sent.id)) == 20
    sent = cast.stranger.send_task("cast.mended", args=([FORGED],))
    assert scene.value(cast.rows.AsyncResult(sent.id)) == [FORGED]
