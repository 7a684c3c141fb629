"""How near to its limit a fleet keeps a database, second by second."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.charts.paper import FAINT, INK, load, paper
from benchmarks.results import Sample

COLOURS = {"weighted": "#0072b2", "fast": "#e69f00"}
ALLOWED = 1.05


def draw_loop(samples: list[Sample], path: Path) -> None:
    """Every second of every fleet is a dot; the limit is a line."""
    gated = [one for one in samples if one["what"] == "gate"]
    if not gated:
        return
    worst = max(one["peak"] for one in gated)
    least = min(one["use"] for one in gated)
    title = (
        f"An endless backlog uses {least:.0%} of the limit or more, its peak second"
        f" {worst:.0%}"
    )
    under = (
        "each dot is a second of Redis' clock; statements that the tasks made, whatever"
        f" the windows say{load(gated)}"
    )
    chance = np.random.default_rng(1)
    with paper(path, title, under, height=4.2) as (_, axes):
        labels = []
        for at, one in enumerate(gated):
            seconds = np.array(one["seconds"])
            axes.scatter(
                at + chance.uniform(-0.22, 0.22, len(seconds)),
                seconds,
                s=16,
                alpha=0.6,
                linewidths=0,
                color=COLOURS[one["estimator"]],
            )
            axes.hlines(one["use"], at - 0.3, at + 0.3, color=INK, lw=1.2)
            many = "worker" if one["workers"] == 1 else "workers"
            labels.append(f"{one['workers']} {many}\n{one['estimator']}")
        axes.axhline(1.0, color=FAINT, lw=1)
        axes.axhline(ALLOWED, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        axes.text(len(gated) - 0.5, ALLOWED, " +5 %", color=FAINT, size=9, va="bottom")
        axes.text(len(gated) - 0.5, 1.0, " limit", color=FAINT, size=9, va="bottom")
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylim(0, max(1.15, worst * 1.05))
        axes.set_ylabel("part of the limit")
        axes.grid(axis="y")


def draw_hook(samples: list[Sample], path: Path) -> None:
    """Every pair is a dot; what is right of 1 was faster with the gate."""
    samples = [one for one in samples if "ratio" in one]
    if not samples:
        return
    worst = min(one["low"] for one in samples)
    title = f"With the gate tasks run at {worst:.0%} of their throughput or more"
    under = f"pairs of batches, with and without, in turns{load(samples)}"
    chance = np.random.default_rng(1)
    with paper(path, title, under, height=1.6 + 0.6 * len(samples)) as (_, axes):
        for at, one in enumerate(samples):
            ratios = np.array(one["ratios"])
            axes.scatter(
                ratios,
                at + chance.uniform(-0.2, 0.2, len(ratios)),
                s=18,
                alpha=0.6,
                linewidths=0,
                color=COLOURS["weighted"],
            )
            axes.hlines(at, one["low"], one["high"], color=INK, lw=3)
        axes.axvline(1.0, color=FAINT, lw=1)
        axes.axvline(0.95, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(samples)), [one["pool"] for one in samples])
        axes.set_ylim(len(samples) - 0.5, -0.5)
        axes.set_xlabel("throughput with the gate / without; the bar: 95 % of the mean")
        axes.grid(axis="x")
