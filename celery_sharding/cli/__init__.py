"""``celery -A proj sharding …``: the command line."""

from __future__ import annotations

import click


@click.group(name="sharding")
def sharding() -> None:
    """Sharded jobs: how far they are, and what can be done to them."""
