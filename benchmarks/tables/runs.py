"""What becomes of runs, what deadlines cost, how soon people see it."""

from __future__ import annotations

from benchmarks.cells import NONE, grid, said, spreads
from benchmarks.results import Sample


def deadline(samples: list[Sample]) -> str:
    """Return how late runs end."""
    lines = [
        [
            f"{one['pool']} · {case}",
            f"{len(found['overs_ms']) + found['silent']}",
            f"{found['refused']}",
            spreads([found], "over_ms", "{:.1f}"),
            f"{max(found['overs_ms']):.1f}" if found["overs_ms"] else NONE,
            f"{found['silent']}",
        ]
        for one in samples
        for case, found in one["cases"].items()
    ]
    head = (
        "pool · what the run waits for",
        "runs",
        "too late to begin",
        "after the deadline, ms",
    )
    return grid((*head, "latest, ms", "did not end in 2 s"), lines)


def deadline_cost(samples: list[Sample]) -> str:
    """Return what a call costs more."""
    asked = {one["what"]: one["us"] for one in samples}
    parts = []
    if questions := asked.pop("questions", None):
        lines = [[f"`{name}`", f"{us:.2f}"] for name, us in questions.items()]
        parts.append(grid(("question", "µs"), lines))
    if asked:
        lines = [
            [
                name,
                said(us["plain, no deadline"], "{:.0f}"),
                f"{us['no deadline']:+.2f}",
                f"{us['enough left']:+.2f}",
            ]
            for name, us in asked.items()
        ]
        head = ("client, one call", "as it is, µs", "bounded, no deadline")
        parts.append(grid((*head, "bounded, enough left"), lines))
    return "\n\n".join(parts)


def flower(samples: list[Sample]) -> str:
    """Return how soon pages are there."""
    one = samples[-1]
    lines = [
        [name, spreads([found], "ms", "{:.0f}"), f"{found['bytes'] / 1e3:,.0f}"]
        for name, found in one["pages"].items()
    ]
    asked = f"{one['entries']:,} entries, {one['requests']} requests each"
    return grid((asked, "ms", "kB"), lines)
