"""What became of each order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

PROMISED = "doubled, as promised"


def deliveries(
    ordered: Collection[str], found: Mapping[str, int], *, exact: bool
) -> dict[str, Any]:
    """Account for messages: each order has one, or at least one; nothing else has."""
    doubled = {one: times for one, times in found.items() if times > 1}
    return {
        "lost": sorted({*ordered} - found.keys()),
        "made up": sorted(found.keys() - {*ordered}),
        "doubled": doubled if exact else {},
        PROMISED: 0 if exact else len(doubled),
    }


def runs(
    ordered: Collection[str],
    ran: Iterable[tuple[str, int, bool]],
    done: Iterable[tuple[str, int]],
) -> dict[str, Any]:
    """Account for rows that live until their task has succeeded.

    Args:
        ordered: The tasks of committed orders.
        ran: A task, which attempt, and whether it came to its end; of each run.
        done: A task and the attempt that did it; of each row that was deleted.

    """
    ran, done = [*ran], [*done]
    began = Counter((task, attempt) for task, attempt, _ in ran)
    ended = {(task, attempt) for task, attempt, to_the_end in ran if to_the_end}
    closed = Counter(task for task, _ in done)
    known = {*ordered}
    return {
        "lost": sorted(known - closed.keys()),
        "made up": sorted(({task for task, _ in began} | closed.keys()) - known),
        "doubled": {
            **{one: times for one, times in began.items() if times > 1},
            **{one: times for one, times in closed.items() if times > 1},
        },
        "done, and not run": sorted({*done} - ended),
        "runs that were cut off": len(began) - len(ended),
    }


def wrong(verdict: Mapping[str, Any]) -> list[str]:
    """Name what must not be."""
    allowed = {"events", "ordered", PROMISED, "runs that were cut off"}
    return [name for name, value in verdict.items() if value and name not in allowed]
