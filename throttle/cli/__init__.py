"""``celery -A proj throttle …``: the command line."""

from __future__ import annotations

import click


@click.group(name="throttle")
def throttle() -> None:
    """Show and serve the gate before the pool slot."""
