"""How soon Flower's page of schedules is there."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.paper import COLOURS, FAINT, INK, beside, load, paper
from benchmarks.results import Sample

PROMISED_MS = 50


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    one = samples[-1]
    pages = one["pages"]
    title = (
        f"{one['entries']:,} entries in Flower: the page is there in"
        f" {pages['the page']['ms']['p95']:.0f} ms (p95)"
    )
    under = f"From the request to the last byte, {one['requests']} times{load(samples)}"
    with paper(path, title, under, height=1.5 + 0.36 * len(pages)) as (_, axes):
        for at, found in enumerate(pages.values()):
            p50, p95 = found["ms"]["p50"], found["ms"]["p95"]
            axes.barh(at, p50, color=COLOURS["pecker"], height=0.62)
            axes.barh(
                at, p95 - p50, left=p50, color=COLOURS["pecker, slow lane"], height=0.62
            )
            beside(axes, f"{p50:.0f} / {p95:.0f}", (p95, at))
        axes.axvline(PROMISED_MS, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        axes.text(
            PROMISED_MS,
            -0.6,
            f"promised, p95: {PROMISED_MS} ms ",
            color=FAINT,
            size=9,
            ha="right",
        )
        axes.set_yticks(range(len(pages)), list(pages))
        axes.set_ylim(len(pages) - 0.5, -1.1)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("milliseconds: p50 / p95")
        axes.grid(axis="x")
        axes.margins(x=0.12)
