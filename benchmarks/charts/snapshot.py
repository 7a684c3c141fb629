"""What a snapshot held by somebody does to claims and to the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.charts.paper import BAND, COLOURS, FAINT, paper
from benchmarks.results import Sample


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    one = samples[-1]
    lost = one["due"] - one["delivered"]
    title = (
        f"A snapshot held for {one['held']} s at {one['entries']:,} entries a second:"
        f" {lost or 'no'} slots lost"
    )
    under = "Time of the claim, and size of the hot table, each second"
    with paper(path, title, under, height=4.6, nrows=2, sharex=True) as (_, grid):
        claims, sizes = np.array(one["claims"]), np.array(one["sizes"])
        for axes in grid:
            axes.axvspan(one["held_from_s"], one["held_until_s"], color=BAND, lw=0)
            axes.grid(axis="y")
        upper, lower = grid
        upper.plot(*claims.T, color=COLOURS["pecker"], lw=0, marker="o", markersize=3)
        _with_median(upper, claims)
        upper.set_ylabel("claim of 1,000, ms")
        upper.set_ylim(0)
        upper.text(
            one["held_from_s"],
            1.02,
            " the snapshot is held",
            color=FAINT,
            size=9,
            transform=upper.get_xaxis_transform(),
        )
        lower.plot(sizes[:, 0], sizes[:, 1], color=COLOURS["pecker"], lw=2)
        lower.plot(sizes[:, 0], sizes[:, 2], color=COLOURS["celery beat"], lw=2)
        for column, name, colour in (
            (1, "table", COLOURS["pecker"]),
            (2, "index", COLOURS["celery beat"]),
        ):
            lower.annotate(
                f" {name}",
                (sizes[-1, 0], sizes[-1, column]),
                color=colour,
                va="center",
                annotation_clip=False,
            )
        lower.set(ylabel="size, MB", xlabel="seconds", ylim=0)
        upper.set_xlim(0, sizes[-1, 0])


def _with_median(axes: Any, claims: np.ndarray, width: int = 9) -> None:
    if len(claims) > width:
        windows = np.lib.stride_tricks.sliding_window_view(claims[:, 1], width)
        half = width // 2
        axes.plot(
            claims[half:-half, 0], np.median(windows, axis=1), color=FAINT, lw=1.5
        )
