"""The outbox beside others: bars, one for each, ours first."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.paper import FAINT, INK, beside, load, paper
from benchmarks.results import Sample

OURS, OTHERS = "#0072b2", "#8a8f98"
PANELS = {
    "calls_rate": "calls a second",
    "commits_rate": "commits a second",
    "rate": "delivered or run a second",
}


def draw_peers(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    fastest = max(
        (one for one in samples if "rate" in one), key=lambda one: one["rate"]
    )
    title = (
        f"Recorded in the caller's transaction: {fastest['subject']} is emptied first"
    )
    under = f"One client, one relay or consumer; right: logarithmic{load(samples)}"
    with paper(
        path,
        title,
        under,
        height=1.5 + 0.36 * len(samples),
        ncols=len(PANELS),
        sharey=True,
    ) as (_, grid):
        for axes, (key, label) in zip(grid, PANELS.items(), strict=True):
            for at, one in enumerate(samples):
                if key not in one:
                    continue
                axes.barh(at, one[key], color=OTHERS if at else OURS, height=0.64)
                beside(axes, f"{one[key]:,}", (one[key], at))
            if key == "rate":
                axes.set_xscale("log")
            axes.set_xlabel(label)
            axes.set_ylim(len(samples) - 0.5, -0.5)
            axes.tick_params(axis="y", length=0, labelcolor=INK)
            axes.spines["left"].set_color(FAINT)
            axes.grid(axis="x")
            axes.margins(x=0.3)
        grid[0].set_yticks(range(len(samples)), [one["subject"] for one in samples])
