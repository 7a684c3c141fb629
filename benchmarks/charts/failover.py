"""How long a per-second task is silent when its scheduler is killed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from benchmarks.charts.paper import COLOURS, FAINT, INK, paper
from benchmarks.results import Sample

NAMES = {
    "ours": ("three peckers,\nthe winner killed", COLOURS["pecker"]),
    "beat restarted": ("one Celery beat,\nrestarted at once", COLOURS["celery beat"]),
}
PROMISED = 1.25


def _up(seconds: float) -> float:
    return math.ceil(seconds * 100) / 100


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    gaps = {one["case"]: one["gaps_s"] for one in samples if one.get("gaps_s")}
    ours = gaps.get("ours") or [0.0]
    title = (
        f"The winner is killed {len(ours)} times: no gap above {_up(max(ours)):.2f} s"
    )
    under = (
        "Time from the last message before a kill -9 to the first one after it;"
        " the task is due every second"
    )
    chance = np.random.default_rng(1)
    with paper(path, title, under, height=3.1) as (_, axes):
        shown = [case for case in NAMES if case in gaps]
        for at, case in enumerate(shown):
            spread = chance.uniform(-0.16, 0.16, len(gaps[case]))
            axes.scatter(
                gaps[case],
                at + spread,
                s=42,
                color=NAMES[case][1],
                alpha=0.75,
                linewidths=0,
            )
        axes.axvline(1.0, color=FAINT, lw=1)
        axes.axvline(PROMISED, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        top = -0.52
        axes.text(0.99, top, "due", ha="right", color=FAINT, size=9)
        axes.text(PROMISED + 0.01, top, f"promised: {PROMISED} s", color=FAINT, size=9)
        axes.set_yticks(range(len(shown)), [NAMES[case][0] for case in shown])
        axes.set_ylim(len(shown) - 0.5, -0.65)
        axes.set_xlim(0, max(max(values) for values in gaps.values()) * 1.06)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("seconds without a message")
        axes.grid(axis="x")
