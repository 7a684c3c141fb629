"""Who keeps up: messages asked for and sent; and how late the last one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.cells import ORDER, loads, of
from benchmarks.charts.paper import COLOURS, FAINT, INK, paper
from benchmarks.results import Sample

TARGETS = {"p95": 60, "p99": 150}
"""Milliseconds, at 1,000 entries."""


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    on_redis = [group for group in loads(samples) if group[1] == "redis"]
    best = {
        subject: max(
            (of(t, "rate") or 0 for _, _, s, t in on_redis if s == subject), default=0
        )
        for subject in ORDER
    }
    title = f"pecker sends {best['pecker']:,.0f} messages a second"
    if best["celery beat"]:
        title += f", Celery's beat at most {best['celery beat']:,.0f}"
    under = "One scheduler, entries due every second, Redis; medians of the runs"
    with paper(path, title, under, height=4.2, ncols=2) as (_, (left, right)):
        _rates(left, on_redis)
        _lateness(right, on_redis)


def _rates(axes: Any, groups: list[tuple[int, str, str, list[Sample]]]) -> None:
    asked = sorted({entries for entries, *_ in groups})
    axes.plot(asked, asked, color=FAINT, linewidth=1, linestyle=(0, (2, 3)))
    for subject, marker in zip(ORDER, ("o", "s", "D"), strict=True):
        points = [(n, of(t, "rate")) for n, _, s, t in groups if s == subject]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                marker=marker,
                markersize=6 if subject != "pecker" else 8,
                color=COLOURS[subject],
                label=subject,
                linewidth=2,
                zorder=3 if subject != "pecker" else 2,
            )
    axes.set(xscale="log", yscale="log", xlabel="messages due each second")
    axes.set_ylabel("messages sent each second")
    _plain_ticks(axes.xaxis, asked)
    _plain_ticks(axes.yaxis, asked)
    axes.grid(axis="y")
    axes.legend(frameon=False, loc="upper left")


def _plain_ticks(axis: Any, values: list[int]) -> None:
    axis.set_ticks(values, labels=[f"{value:,}" for value in values])
    axis.set_ticks([], minor=True)


def _lateness(axes: Any, groups: list[tuple[int, str, str, list[Sample]]]) -> None:
    places = sorted({n for n, _, s, _ in groups if s == "pecker"})
    for at, entries in enumerate(places):
        [trials] = [t for n, _, s, t in groups if n == entries and s == "pecker"]
        values = [of(trials, "last_ms", name) or 0.0 for name in ("p50", "p95", "p99")]
        axes.plot([at, at], [values[0], values[-1]], color=COLOURS["pecker"], lw=2)
        for value, name, marker in zip(
            values, ("p50", "p95", "p99"), ("o", "_", "^"), strict=True
        ):
            axes.plot(
                at,
                value,
                marker=marker,
                markersize=9,
                markeredgewidth=2 if marker == "_" else 1,
                color=COLOURS["pecker"],
                alpha=1.0 if name == "p50" else 0.8,
                label=None if at else name,
                linestyle="none",
            )
        axes.annotate(
            f"p95 {values[1]:.0f}",
            (at, values[1]),
            (9, 0),
            textcoords="offset points",
            va="center",
            size=9,
            color=INK,
        )
        if entries == 1000:
            for name, target in TARGETS.items():
                axes.plot([at - 0.3, at + 0.3], [target] * 2, color=FAINT, lw=1)
                axes.annotate(
                    f"target {name}",
                    (at - 0.32, target),
                    size=8,
                    color=FAINT,
                    ha="right",
                    va="center",
                )
    axes.set_xticks(range(len(places)), [f"{entries:,}" for entries in places])
    axes.set(xlabel="messages due each second", xlim=(-0.6, len(places) - 0.4))
    axes.set_ylabel("pecker: lateness of a slot's\nlast message, ms")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(frameon=False, loc="upper left")
