"""The table, and where its rows are played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from celery_pecker.testing import eventually
from tests.integration.sharding.canvas.cast import Cast

TIMEOUT = 40.0
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
        return result.get(timeout=TIMEOUT)

    def failure(self, result: Any) -> Exception:
        """Return what it failed with."""
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            result.get(timeout=TIMEOUT)
        return caught.value

    def state(self, result: Any, wanted: str) -> None:
        """It is in that state, or comes to it."""
        eventually(lambda: result.state == wanted, TIMEOUT, f"{wanted} {result!r}")

    def noted(self, key: str, many: int = 1) -> list[Any]:
        """Return what was noted, once that many are there."""
        return (
            eventually(
                lambda: len(found := self.cast.notes(key)) >= many and found,
                TIMEOUT,
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
