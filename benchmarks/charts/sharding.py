"""Sharded jobs beside a chord, `chunks` and dask.distributed."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.charts.paper import FAINT, INK, beside, load, paper
from benchmarks.results import Sample
from benchmarks.tables.sharding import OURS, groups

COLOURS = {
    OURS: "#0072b2",
    "chord": "#d55e00",
    "chunks": "#e69f00",
    "dask.distributed": "#009e73",
}
CALL = "#8a8f98"
PROMISED = 5.0


def draw_many(samples: list[Sample], path: Path) -> None:
    """A bar for each: the call, and until the answer was there."""
    shards = max(one["shards"] for one in samples)
    trials = [one for one in samples if one["shards"] == shards]
    found = {
        who: (
            median(one["submit_s"] for one in each),
            median(one["total_s"] for one in each),
        )
        for (who,), each in groups(trials, "who")
    }
    if OURS not in found:
        return
    title = f"{shards:,} shards of two items are done in {found[OURS][1]:.1f} s"
    under = (
        "from the call until the answer is stored, two workers of one process; grey:"
        f" the call itself{load(trials)}"
    )
    with paper(path, title, under, height=1.5 + 0.42 * len(found)) as (_, axes):
        for at, (who, (call, total)) in enumerate(found.items()):
            axes.barh(at, total, color=COLOURS[who], height=0.64)
            axes.barh(at, call, color=CALL, height=0.28)
            beside(axes, f"{total:.1f}", (total, at), weight="normal" if at else "bold")
        axes.axvline(PROMISED, color=FAINT, lw=1, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(found)), list(found))
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("seconds; the line: promised")
        axes.grid(axis="x")
        axes.margins(x=0.1)


def draw_kill(samples: list[Sample], path: Path) -> None:
    """Every kill is a dot: when its shards ran again."""
    found = [
        (who if victim is None else f"{victim} killed,\nlease {lease:g} s", each)
        for (who, victim, lease), each in groups(samples, "who", "victim", "lease")
        if any(one["again_s"] is not None for one in each)
    ]
    if not any(one["who"] == OURS for one in samples):
        return
    stuck = [one for one in samples if one["who"] == "chord" and not one["completed"]]
    title = "A worker is killed: its shards run again when its lease is over"
    if stuck:
        title += "; a chord waits for ever"
    under = (
        "from kill -9 until an item of a shard that it ran is begun elsewhere"
        f"{load(samples)}"
    )
    chance = np.random.default_rng(1)
    with paper(path, title, under, height=1.5 + 0.5 * len(found)) as (_, axes):
        for at, (_name, each) in enumerate(found):
            again = [one["again_s"] for one in each if one["again_s"] is not None]
            axes.scatter(
                again,
                at + chance.uniform(-0.14, 0.14, len(again)),
                s=46,
                color=COLOURS[each[0]["who"]],
                alpha=0.8,
                linewidths=0,
            )
            if (lease := each[0].get("lease")) is not None:
                axes.vlines(lease, at - 0.35, at + 0.35, color=FAINT, lw=1)
        axes.set_yticks(range(len(found)), [name for name, _ in found])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("seconds; the line: its lease")
        axes.grid(axis="x")
