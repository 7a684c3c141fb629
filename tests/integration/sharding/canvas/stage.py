"""A worker that plays shapes, and the app that calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.sharding.canvas import cast as cast_module
from tests.integration.sharding.canvas.cast import CONF, cast
from tests.integration.sharding.canvas.shapes import Scene
from tests.integration.sharding.disconnect import disconnect
from tests.nodes import start, worker

ROOT = Path(__file__).parents[4]


@contextmanager
def playing(
    conf: Mapping[str, Any], *, notes: str, queue: str, options: Sequence[str] = ()
) -> Iterator[Scene]:
    """Give a scene whose worker is ready; it is gone at the end."""
    node = worker(
        cast_module.__name__,
        name="shapes",
        queue=queue,
        cwd=ROOT,
        env={CONF: json.dumps({"conf": dict(conf), "notes": notes})},
        options=["-c", "3", "--without-gossip", "--without-mingle", *options],
    )
    made = cast(conf, notes=notes)
    try:
        start([node], lambda one: one.container._wait_ready())
        yield Scene(cast=made, queue=queue)
    finally:
        node.teardown()
        for app in (made.app, made.stranger):
            disconnect(app)
