"""The same shapes in the caller: no worker, no broker, no database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.sharding.canvas.cast import cast
from tests.integration.sharding.canvas.shapes import EAGER, SHAPES, Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Give an app whose tasks run where they are called."""
    made = cast(
        {
            "task_always_eager": True,
            "broker_url": "memory://",
            "result_backend": "cache+memory://",
        }
    )
    yield Scene(cast=made, eager=True)
    made.app.close()


@pytest.mark.parametrize("name", sorted(EAGER))
def test_shape(scene: Scene, name: str) -> None:
    """The canvas comes to what it would in workers."""
    SHAPES[name](scene)
