"""Let events happen, and say what became of each order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from celery_pecker.kernel.errors import PeckerError
from tests.chaos.outbox.events import Event
from tests.chaos.outbox.stand import Stand

BROKEN = (AssertionError, OSError, PeckerError, psycopg.Error)
"""What a machine that is too busy, or a bug, makes of a run."""


def run(
    stand: Stand, happening: list[Event], told: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """Let all events happen; return the verdict, also where they could not go on."""
    for number, event in enumerate(happening):
        told(f"{number}: {event}\n")
        try:
            stand.strike(event)
        except BROKEN as error:
            stand.broken_off.append(f"{number}: {event}: {error!r}")
            break
    try:
        stand.settle()
        return stand.verdict()
    except BROKEN as error:
        stand.broken_off.append(f"at the end: {error!r}")
        return {"events": stand.events, "broken off": stand.broken_off}
