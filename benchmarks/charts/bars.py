"""Bars, one for each scheduler, ours first: as many panels as there are figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells import ranked
from benchmarks.charts.paper import COLOURS, FAINT, INK, beside, load, paper
from benchmarks.results import Sample


def draw_doubles(samples: list[Sample], path: Path) -> None:
    """The chart of two copies is in the file."""
    once = [s["subject"] for s in ranked(samples) if s["sent_per_slot"] <= 1.02]
    title = f"Two copies: once a slot by {' and '.join(once) or 'nobody'}"
    under = "Two copies of each for the same entries, nobody killed"
    _bars(samples, path, (title, under), [("messages for each slot", "sent_per_slot")])


def draw_asked(samples: list[Sample], path: Path) -> None:
    """The chart of what is asked is in the file."""
    under = "10 entries, due every second together; the push itself is left out"
    _bars(
        samples,
        path,
        ("What one message asks of the servers", under),
        [
            ("PostgreSQL statements", "statements_per_message"),
            ("Redis commands", "commands_per_message"),
        ],
    )


def _bars(
    samples: list[Sample],
    path: Path,
    words: tuple[str, str],
    panels: Sequence[tuple[str, str]],
) -> None:
    trials = ranked(samples)
    title, under = words
    with paper(
        path,
        title,
        under + load(trials),
        height=1.5 + 0.36 * len(trials),
        ncols=len(panels),
        sharey=True,
        squeeze=False,
    ) as (_, grid):
        for axes, (label, key) in zip(grid[0], panels, strict=True):
            _panel(axes, trials, key)
            axes.set_xlabel(label)


def _panel(axes: Any, trials: list[Sample], key: str) -> None:
    for at, one in enumerate(trials):
        axes.barh(at, one[key], color=COLOURS[one["subject"]], height=0.64)
        beside(
            axes, f"{one[key]:,.2f}", (one[key], at), weight="normal" if at else "bold"
        )
    axes.set_yticks(range(len(trials)), [one["subject"] for one in trials])
    axes.set_ylim(len(trials) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_color(FAINT)
    axes.grid(axis="x")
    axes.margins(x=0.16)
