"""Figures and names as letters of a terminal: pure."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from kombu.utils.json import dumps

from celery_sharding.overview import State

STYLES = {
    State.RUNNING: "green",
    State.SUCCEEDED: "green",
    State.POSTING: "green",
    State.DELIVERING: "green",
    State.PLANNING: "cyan",
    State.SUBMITTED: "cyan",
    State.WAITING: "yellow",
    State.PAUSED: "yellow",
    State.CANCELLED: "dim",
    State.STARVED: "bold red",
    State.FAILED: "bold red",
}
"""Of each state, in a terminal."""


def duration(of: timedelta | float | None) -> str:
    """Return a length of time for people."""
    if of is None:
        return "-"
    seconds = of.total_seconds() if isinstance(of, timedelta) else of
    for below, unit, name, digits in (
        (10, 1, "s", 1),
        (120, 1, "s", 0),
        (7_200, 60, "min", 0),
        (172_800, 3_600, "h", 1),
    ):
        if seconds < below:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds / 86_400:.1f} days"


def rate(per_second: float) -> str:
    """Return items per second for people."""
    digits = 1 if 0 < per_second < 10 else 0  # noqa: PLR2004 — a digit more
    return f"{per_second:,.{digits}f}/s"


def percent(fraction: float) -> str:
    """Return a part of all; all of it only where nothing is left."""
    return f"{min(int(fraction * 1_000) / 10, 100.0):.1f}%"


def visible(text: str) -> str:
    """Return a text without what would move the cursor or colour the rest."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def item(value: Any, longest: int = 80) -> str:
    """Return an item as JSON, on one line, cut where it is long."""
    text = visible(json.dumps(json.loads(dumps(value)), ensure_ascii=False))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def short(text: str, longest: int = 120) -> str:
    """Return the first line of a text, cut where it is long."""
    line = visible(text.strip().partition("\n")[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
