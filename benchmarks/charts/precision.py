"""How even the steps of one per-second task are, and where they lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells import ranked
from benchmarks.charts.paper import COLOURS, FAINT, INK, load, paper
from benchmarks.results import Sample

BINS = 81
ANCHOR = 5
"""Messages whose median is where the drift is told from."""
Steps = NDArray[np.float64]


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    trials = ranked(samples)
    off = {one["subject"]: (np.array(one["gaps_s"]) - 1) * 1e3 for one in trials}
    lag = {one["subject"]: np.array(one["lag_s"]) * 1e3 for one in trials}
    lag = {name: ms - np.median(ms[:ANCHOR]) for name, ms in lag.items()}
    first, *others = off
    title = f"One task, every second: {first} stays on its grid"
    if others:
        least, most = (f(lag[name][-1] for name in others) for f in (min, max))
        title += f"; others end {_signed(least)} to {_signed(most)} ms off"
    under = f"The same second, asked of each for {len(lag[first])} s{load(trials)}"
    widths = {"width_ratios": (3, 2)}
    with paper(
        path,
        title,
        under,
        height=1.6 + 1.05 * len(off),
        nrows=len(off),
        ncols=2,
        sharex="col",
        squeeze=False,
        gridspec_kw=widths,
    ) as (figure, grid):
        edge = _edge(list(off.values()))
        for (name, ms), axes in zip(off.items(), grid[:, 0], strict=True):
            _steps(axes, name, ms, edge)
        grid[-1, 0].set_xlabel("step between two messages, less 1 s: ms")
        for axes in grid[:, 1]:
            axes.remove()
        _drift(figure.add_subplot(grid[0, 1].get_gridspec()[:, 1]), lag)


def _signed(value: float) -> str:
    return f"{value:+.0f}".replace("-", "−")  # noqa: RUF001 - a minus


def _edge(all_steps: list[Steps]) -> float:
    """Return how far the axis goes: what lies beyond is told in words."""
    usual = max(float(np.percentile(np.abs(ms), 99)) for ms in all_steps)
    return max(usual * 1.25, 1.0)


def _steps(axes: Any, name: str, ms: Steps, edge: float) -> None:
    colour = COLOURS[name]
    inside = ms[np.abs(ms) <= edge]
    axes.hist(inside, bins=np.linspace(-edge, edge, BINS), color=colour)
    axes.axvline(0, color=FAINT, lw=1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(-edge, edge)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.7)  # room for the words
    said = f"99 of 100 within\n{np.percentile(np.abs(ms), 99):.1f} ms"
    beyond = len(ms) - len(inside)
    if beyond:
        said += f"; {beyond} beyond,\nto {_signed(ms[np.argmax(np.abs(ms))])} ms"
    words = {"transform": axes.transAxes, "va": "top"}
    axes.text(0.0, 0.98, name, color=colour, weight="bold", **words)
    axes.text(1.0, 0.98, said, color=INK, size=9, ha="right", **words)


def _drift(axes: Any, lag: dict[str, Steps]) -> None:
    for name, ms in reversed(lag.items()):
        emphasis = 3.0 if name == next(iter(lag)) else 1.6
        axes.plot(np.arange(len(ms)), ms, color=COLOURS[name], lw=emphasis, label=name)
    axes.axhline(0, color=FAINT, lw=1)
    axes.set_title("drift: ms behind its first messages", size=10, color=FAINT)
    axes.set_xlabel("seconds")
    axes.grid(axis="y")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], frameon=False, loc="upper left", fontsize=9)
