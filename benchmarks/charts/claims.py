"""How many slots replicas claim each second, all wanting the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.paper import COLOURS, INK, load, paper
from benchmarks.results import Sample


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    batches = sorted({one["batch"] for one in samples})
    best = max(samples, key=lambda one: one["slots_per_second"])
    doubled = sum(one["doubled"] for one in samples)
    title = (
        f"Up to {best['slots_per_second']:,} slots claimed each second,"
        f" {doubled or 'none'} of them twice"
    )
    under = (
        f"Replicas that all want the same 1,000 entries; claims alone{load(samples)}"
    )
    with paper(path, title, under, height=3.2, ncols=len(batches), squeeze=False) as (
        _,
        grid,
    ):
        for axes, batch in zip(grid[0], batches, strict=True):
            trials = sorted(
                (one for one in samples if one["batch"] == batch),
                key=lambda one: one["replicas"],
            )
            names = [f"{one['replicas']}" for one in trials]
            values = [one["slots_per_second"] for one in trials]
            bars = axes.bar(names, values, color=COLOURS["pecker"], width=0.6)
            axes.bar_label(bars, [f"{one:,}" for one in values], color=INK, padding=2)
            axes.set_xlabel(f"replicas, each asking for {batch:,} at once")
            axes.set_ylabel(
                "slots claimed each second"
                if not axes.get_subplotspec().colspan.start
                else ""
            )
            axes.margins(y=0.14)
            axes.grid(axis="y")
