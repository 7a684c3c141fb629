"""Chart of what counting costs a statement."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.paper import COLOURS, FAINT, INK, beside, load, paper
from benchmarks.results import Sample


def draw_meter(samples: list[Sample], path: Path) -> None:
    """The chart is in the file: the wrappers alone, nothing within them."""
    found = [
        (f"{one['what']}: {who}", us, who.startswith("throttle"))
        for one in samples
        if one["way"] == "alone"
        for who, us in one["us"].items()
    ]
    ours = [us for _, us, is_ours in found if is_ours]
    others = [us for _, us, is_ours in found if not is_ours]
    title = f"Counting takes {min(ours):.1f} to {max(ours):.1f} µs of a statement"
    if others:
        title += f", a span {min(others):.0f} to {max(others):.0f}"
    under = f"The wrapper alone, about a statement that does nothing{load(samples)}"
    with paper(path, title, under, height=1.5 + 0.34 * len(found)) as (_, axes):
        for at, (_label, us, is_ours) in enumerate(found):
            colour = COLOURS["pecker" if is_ours else "pecker in a worker"]
            axes.barh(at, us, color=colour, height=0.62)
            beside(axes, f"{us:,.2f}", (us, at), weight="bold" if is_ours else "normal")
        axes.set_yticks(range(len(found)), [label for label, _, _ in found])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("microseconds (each line ten times the one before)")
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_color(FAINT)
        axes.grid(axis="x")
        axes.margins(x=0.12)
