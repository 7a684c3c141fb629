"""Charts of what it takes to ask a gate, and of how soon a gate knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.charts.paper import COLOURS, FAINT, INK, beside, load, paper
from benchmarks.results import Sample

OURS = ("gate", "worker")
LINES = {
    "fast": (COLOURS["pecker"], 0.45),
    "weighted": (COLOURS["celery beat"], 2.7),
}
"""Colour of an estimator, and what is promised of it in seconds."""
STYLES = {"in Redis": "-", "in a process": (0, (4, 2))}


def draw_gate(samples: list[Sample], path: Path) -> None:
    """The chart of what a question takes is in the file."""
    one = samples[-1]
    us = one["us"]
    script = us["a script that does nothing"]["p50"]
    title = (
        f"May a task start? The gate knows in {us['gate: yes']['p50']:.1f} µs,"
        f" Redis answers in {script:.0f} µs"
    )
    under = f"One question, median of {one['questions']:,}{load(samples)}"
    with paper(path, title, under, height=1.5 + 0.34 * len(us)) as (_, axes):
        for at, (who, took) in enumerate(us.items()):
            ours = who.startswith(OURS)
            colour = COLOURS["pecker" if ours else "pecker in a worker"]
            axes.barh(at, took["p50"], color=colour, height=0.62)
            beside(
                axes,
                f"{took['p50']:,.1f}",
                (took["p50"], at),
                weight="bold" if ours else "normal",
            )
        axes.set_yticks(range(len(us)), list(us))
        axes.set_ylim(len(us) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("microseconds (each line ten times the one before)")
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_color(FAINT)
        axes.grid(axis="x")
        axes.margins(x=0.12)


def draw_step(samples: list[Sample], path: Path) -> None:
    """The chart of how soon a step is seen is in the file."""
    one = samples[-1]
    most = {name: one["ms"]["in Redis"][name]["most"] / 1e3 for name in LINES}
    title = (
        f"A step in traffic is seen within {most['fast']:.2f} s (fast),"
        f" {most['weighted']:.2f} s (weighted)"
    )
    under = f"90 % of it; {one['steps']} steps at random, four processes report" + load(
        samples
    )
    with paper(path, title, under, height=3.6) as (_, axes):
        for place, found in one["ms"].items():
            for name, ms in found.items():
                values = np.sort(ms["all"]) / 1e3
                axes.plot(
                    values,
                    np.arange(1, len(values) + 1) / len(values) * 100,
                    color=LINES[name][0],
                    linestyle=STYLES[place],
                    drawstyle="steps-post",
                    label=f"{name}, known {place}",
                )
        for name, (colour, promised) in LINES.items():
            axes.axvline(promised, color=colour, lw=1, linestyle=(0, (1, 3)))
            axes.text(
                promised, 4, f" {name}: {promised:g} s promised", color=FAINT, size=9
            )
        axes.set_xlim(0, 3.6)
        axes.set_ylim(0, 101)
        axes.set_xlabel("seconds since the step")
        axes.set_ylabel("% of steps seen")
        axes.grid()
        axes.legend(frameon=False, loc="center", bbox_to_anchor=(0.31, 0.5), fontsize=9)
