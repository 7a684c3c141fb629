"""Reports a second on each line: a lock on the room, single statements, batches."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.paper import INK, beside, load, paper
from benchmarks.results import Sample
from benchmarks.tables.groomer import rates, times

COLOURS = {
    "a lock on the room": "#d55e00",
    "single statements": "#56b4e9",
    "batches of 100": "#0072b2",
}


def draw(samples: list[Sample], path: Path) -> None:
    """Draw bars on a logarithmic scale: one group for each line."""
    found = {
        delay: ways
        for delay, ways in rates(samples).items()
        if set(COLOURS) <= set(ways)
    }
    if not found:
        return
    longest = max(found)
    factor = times(found[longest], "batches of 100")
    title = f"On a line of {longest} ms batches are {factor:,.0f} times a lock's rate"
    under = (
        "reports applied a second, rooms of 40 peers one after the other"
        f"{load(samples)}"
    )
    with paper(path, title, under, height=1.4 + 0.36 * 4 * len(found)) as (_, axes):
        ticks = []
        for group, (delay, ways) in enumerate(found.items()):
            for place, (way, colour) in enumerate(COLOURS.items()):
                at, rate = group * 4 + place, ways[way]["per_second"]
                axes.barh(at, rate, color=colour, height=0.74)
                beside(axes, f"{rate:,.0f}", (rate, at))
                ticks.append((at, f"{way}, {delay} ms"))
        axes.set_xscale("log")
        axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
        axes.set_ylim(len(found) * 4 - 1.2, -0.8)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("reports a second")
        axes.grid(axis="x")
        axes.margins(x=0.16)
