"""How long a per-second task is silent when its scheduler is killed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from benchmarks.cells import ranked
from benchmarks.charts.paper import COLOURS, FAINT, INK, load, paper
from benchmarks.results import Sample

PROMISED = 1.25


def _up(seconds: float) -> float:
    return math.ceil(seconds * 100) / 100


def _name(one: Sample) -> str:
    if one["copies"] == 1:
        return f"one {one['subject']},\nstarted again at once"
    lock = f", lock of {one['lock_s']:g} s" if "lock_s" in one else ""
    return f"{one['copies']} × {one['subject']}{lock},\nthe active one killed"  # noqa: RUF001


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    trials = [one for one in ranked(samples) if one["gaps_s"]]
    most = {one["subject"]: max(one["gaps_s"]) for one in trials}
    first = trials[0]["subject"]
    title = f"The active one is killed: {first} is silent for {_up(most[first]):.2f} s"
    for one in trials[1:]:
        if one["copies"] > 1:
            title += f", {one['subject']} for {max(one['gaps_s']):.1f} s"
    under = (
        "From the last message before a kill -9 to the first one after it;"
        f" the task is due every second{load(trials)}"
    )
    chance = np.random.default_rng(1)
    with paper(path, title, under, height=1.5 + 0.62 * len(trials)) as (_, axes):
        for at, one in enumerate(trials):
            spread = chance.uniform(-0.16, 0.16, len(one["gaps_s"]))
            axes.scatter(
                one["gaps_s"],
                at + spread,
                s=70 if one["subject"] == first else 42,
                color=COLOURS[one["subject"]],
                alpha=0.8,
                linewidths=0,
            )
        axes.axvline(1.0, color=FAINT, lw=1)
        axes.axvline(PROMISED, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        top = -0.52
        axes.text(0.99, top, "due", ha="right", color=FAINT, size=9)
        axes.text(PROMISED + 0.01, top, f"promised: {PROMISED} s", color=FAINT, size=9)
        axes.set_yticks(range(len(trials)), [_name(one) for one in trials])
        axes.set_ylim(len(trials) - 0.5, -0.65)
        axes.set_xlim(0, max(most.values()) * 1.06)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("seconds without a message")
        axes.grid(axis="x")
