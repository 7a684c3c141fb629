"""How even the steps of one per-second task are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.charts.paper import COLOURS, FAINT, paper
from benchmarks.results import Sample


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    off = {one["subject"]: (np.array(one["gaps_s"]) - 1) * 1e3 for one in samples}
    within = {name: np.percentile(np.abs(ms), 99) for name, ms in off.items()}
    title = "One task, every second: " + ", ".join(
        f"{name} within {ms:.0f} ms" for name, ms in within.items()
    )
    under = "Time between two messages of the task, less one second (99 of 100)"
    edge = max(float(np.max(np.abs(ms))) for ms in off.values()) * 1.05
    edge = max(edge, 1.0)
    with paper(
        path,
        title,
        under,
        height=3.6,
        nrows=len(off),
        sharex=True,
        sharey=True,
        squeeze=False,
    ) as (_, grid):
        for (name, ms), axes in zip(off.items(), grid[:, 0], strict=True):
            axes.hist(ms, bins=np.linspace(-edge, edge, 61), color=COLOURS[name])
            axes.axvline(0, color=FAINT, lw=1)
            axes.set_ylabel("steps")
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.text(
                0.01,
                0.9,
                f"{name} ({len(ms)} steps)",
                color=COLOURS[name],
                weight="bold",
                transform=axes.transAxes,
                va="top",
            )
        grid[-1, 0].set_xlabel("milliseconds early (−) or late (+)")  # noqa: RUF001
