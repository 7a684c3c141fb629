"""How long after its deadline a run ends, pool by pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.charts.paper import FAINT, INK, load, paper
from benchmarks.results import Sample

PROMISED_MS = 50
CASE_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
MARKS = "os^vDX"


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    every = np.array(
        [
            ms
            for one in samples
            for case in one["cases"].values()
            for ms in case["overs_ms"]
        ]
    )
    silent = sum(one["silent"] for one in samples)
    title = (
        f"Behind a black hole, 99 of 100 runs end {np.percentile(every, 99):.0f} ms"
        " after their deadline"
    )
    under = (
        f"{len(every) + silent} runs in real workers, {silent} did not"
        f" end{load(samples)}"
    )
    cases = list(dict.fromkeys(name for one in samples for name in one["cases"]))
    chance = np.random.default_rng(1)
    lines = [
        (one["pool"], name, one["cases"][name])
        for one in samples
        for name in one["cases"]
    ]
    with paper(path, title, under, height=1.6 + 0.27 * len(lines)) as (_, axes):
        labels = []
        for at, (pool, name, found) in enumerate(lines):
            overs = found["overs_ms"]
            spread = chance.uniform(-0.2, 0.2, len(overs))
            first = not at or lines[at - 1][0] != pool
            if first and at:
                axes.axhline(at - 0.5, color=FAINT, lw=0.6)
            nth = cases.index(name) % len(MARKS)
            axes.scatter(
                overs,
                at + spread,
                s=16,
                alpha=0.7,
                linewidths=0,
                marker=MARKS[nth],
                color=CASE_COLOURS[nth],
            )
            labels.append(f"{pool}: {name}" if first else name)
        axes.axvline(0, color=FAINT, lw=1)
        axes.axvline(PROMISED_MS, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        axes.text(
            PROMISED_MS,
            -0.65,
            f"promised, p99: {PROMISED_MS} ms ",
            color=FAINT,
            size=9,
            ha="right",
        )
        axes.set_yticks(range(len(lines)), labels)
        axes.set_ylim(len(lines) - 0.5, -1.2)
        axes.set_xlim(
            min(0.0, float(every.min())) - 1,
            max(PROMISED_MS, float(every.max())) * 1.06,
        )
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel(
            "milliseconds from the deadline to the error in the run's own code"
        )
        axes.grid(axis="x")
