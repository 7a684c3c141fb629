"""The conformance table: a row for each place of a sharded job in a canvas.

Each shape sends a canvas and says what it comes to: what it would with any other task
in the place of the sharded one.
"""

from __future__ import annotations

from tests.integration.sharding.canvas.shapes import (  # noqa: F401  # they enter it
    acting,
    alone,
    calls,
    chains,
    failing,
    groups,
    links,
    sources,
)
from tests.integration.sharding.canvas.shapes.table import (
    EAGER,
    SHAPES,
    TIMEOUT,
    Scene,
)

__all__ = ["EAGER", "SHAPES", "TIMEOUT", "Scene"]
