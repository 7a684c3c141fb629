"""Stored schedules: an edit's way, a start with many, many that are due."""

from __future__ import annotations

from benchmarks.cells import NONE, columns, ranked, said, spreads
from benchmarks.results import Sample


def edit(samples: list[Sample]) -> str:
    """Return how soon an edit has its effect."""
    return columns(
        ranked(samples),
        {
            "": "{subject}, {edits} of each",
            "added → first message, p50 / p95 / p99, s": lambda one: spreads(
                [one], "added_s", "{:.2f}"
            ),
            "removed → last message, s": lambda one: spreads(
                [one], "removed_s", "{:.2f}"
            ),
            "never came": "{never}",
        },
    )


def start(samples: list[Sample]) -> str:
    """Return what many entries cost at the start, and while none is due."""
    return columns(
        sorted(ranked(samples), key=lambda one: one["entries"]),
        {
            "entries": "{entries:,}, {subject}",
            "ready after, s": "{ready_s:.1f}",
            "memory, MB": "{rss_mb:.0f}",
            "processor, ms an idle second": "{cpu_ms:.1f}",
            "transactions an idle second": lambda one: said(
                one.get("commits"), "{:.1f}"
            ),
        },
    )


def _together(one: Sample) -> str:
    batch = one.get("batch", 0)
    return f", edits in calls of {batch}" if batch > 1 else ""


def busy(samples: list[Sample]) -> str:
    """Return what was delivered of what was due."""
    return columns(
        sorted(ranked(samples), key=lambda one: (one["every"], one.get("batch", 1))),
        {
            "": lambda one: (
                f"{one['subject']}, {one['replicas']} scheduler(s){_together(one)}"
            ),
            "due": "{due:,}",
            "delivered": "{share:.1%}",
            "doubled": lambda one: (
                NONE if one["doubled"] is None else f"{one['doubled']}"
            ),
            "edits a second": "{edits_rate:,}",
            "late, p50 / p95 / p99, ms": lambda one: (
                spreads([one], "late_ms") if one["late_ms"] else NONE
            ),
        },
    )
