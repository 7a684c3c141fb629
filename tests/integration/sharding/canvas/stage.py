"""A worker that plays shapes, and the app that calls it."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery

from celery_pecker.testing.cluster import start, worker
from tests.integration.sharding.canvas import cast as cast_module
from tests.integration.sharding.canvas.cast import CONF, cast
from tests.integration.sharding.canvas.shapes import Scene

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
            _close(app)


def _close(app: Celery) -> None:
    """Nothing of this process stays connected."""
    backend: Any = app.backend
    with warnings.catch_warnings():
        # A socket that an earlier test has left in a circle is no fault of this one
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # results unsubscribe when they go, some of them in a circle
    backend.result_consumer.stop()
    backend.result_consumer._pubsub = None
    backend.client.connection_pool.disconnect()
    app.close()
