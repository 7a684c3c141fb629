"""Where the time of a wake-up goes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cells import ORDER
from benchmarks.charts.paper import COLOURS, INK, beside, paper
from benchmarks.results import Sample


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    both = {one["subject"]: one["own_us"] for one in samples}
    own = both.get(ORDER[0]) or next(iter(both.values()))
    rows = sorted(own.items(), key=lambda pair: pair[1])
    total = sum(own.values())
    biggest = max(own.items(), key=lambda pair: pair[1])
    title = f"A slot takes {total:.0f} µs from due to sent"
    under = (
        f"The scheduler's thread, 5,000 entries, fast lane;"
        f" {biggest[1] / total:.0%} of it: {biggest[0]}"
    )
    with paper(path, title, under, height=1.4 + 0.34 * len(rows)) as (_, axes):
        names, values = zip(*rows, strict=True)
        axes.barh(names, values, color=COLOURS["pecker"], height=0.66)
        for at, value in enumerate(values):
            beside(axes, f"{value:.1f}", (value, at))
        axes.set_xlabel("microseconds for each slot")
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(axis="x")
        axes.margins(x=0.08)
