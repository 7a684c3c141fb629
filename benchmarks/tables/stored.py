"""Stored schedules: an edit's way, a start with many, many that are due."""

from __future__ import annotations

from benchmarks.cells import NONE, grid, ranked, said, spreads
from benchmarks.results import Sample


def edit(samples: list[Sample]) -> str:
    """Return how soon an edit has its effect."""
    lines = [
        [
            f"{one['subject']}, {one['edits']} of each",
            spreads([one], "added_s", "{:.2f}"),
            spreads([one], "removed_s", "{:.2f}"),
            f"{one['never']}",
        ]
        for one in ranked(samples)
    ]
    head = ("", "added → first message, p50 / p95 / p99, s")
    return grid((*head, "removed → last message, s", "never came"), lines)


def start(samples: list[Sample]) -> str:
    """Return what many entries cost at the start, and while none is due."""
    lines = [
        [
            f"{one['entries']:,}, {one['subject']}",
            f"{one['ready_s']:.1f}",
            f"{one['rss_mb']:.0f}",
            f"{one['cpu_ms']:.1f}",
            said(one.get("commits"), "{:.1f}"),
        ]
        for one in sorted(ranked(samples), key=lambda one: one["entries"])
    ]
    head = ("entries", "ready after, s", "memory, MB")
    cost = ("processor, ms an idle second", "transactions an idle second")
    return grid((*head, *cost), lines)


def _together(one: Sample) -> str:
    batch = one.get("batch", 0)
    return f", edits in calls of {batch}" if batch > 1 else ""


def busy(samples: list[Sample]) -> str:
    """Return what was delivered of what was due."""
    lines = [
        [
            f"{one['subject']}, {one['replicas']} scheduler(s){_together(one)}",
            f"{one['due']:,}",
            f"{one['share']:.1%}",
            NONE if one["doubled"] is None else f"{one['doubled']}",
            f"{one['edits_rate']:,}",
            spreads([one], "late_ms") if one["late_ms"] else NONE,
        ]
        for one in sorted(
            ranked(samples), key=lambda one: (one["every"], one.get("batch", 1))
        )
    ]
    head = ("", "due", "delivered", "doubled", "edits a second")
    return grid((*head, "late, p50 / p95 / p99, ms"), lines)
