"""Items and messages as one line of a terminal: pure."""

from __future__ import annotations

from typing import Any

from celery_pecker.surfaces.console.rendering import visible
from celery_sharding.views import as_text


def item(value: Any, longest: int = 80) -> str:
    """Return an item as JSON, on one line, cut where it is long."""
    return visible(as_text(value, longest))


def short(text: str, longest: int = 120) -> str:
    """Return the first line of a text, cut where it is long."""
    line = visible(text.strip().partition("\n")[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
