"""Who keeps up: messages asked for and sent; and how late they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.cells import ORDER, loads, of
from benchmarks.charts.paper import COLOURS, FAINT, MARKERS, load, paper
from benchmarks.results import Sample
from benchmarks.schedules.subjects import Subject

LEAST_MS = 1.0
Groups = list[tuple[int, str, str, list[Sample]]]


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
    rivals = {name: rate for name, rate in best.items() if not Subject(name).ours}
    if any(rivals.values()):
        name, rate = max(rivals.items(), key=lambda pair: pair[1])
        title += f"; of the others {name} most: {rate:,.0f}"
    under = (
        f"One scheduler, entries due every second, Redis; medians of the"
        f" runs{load(samples)}"
    )
    with paper(path, title, under, height=4.6, ncols=2) as (_, (left, right)):
        _rates(left, on_redis)
        _lateness(right, on_redis)


def _line(axes: Any, subject: str, points: list[tuple[int, float]]) -> None:
    first = subject == Subject.FAST
    axes.plot(
        *zip(*points, strict=True),
        marker=MARKERS[subject],
        markersize=9 if first else 6,
        color=COLOURS[subject],
        label=subject,
        linewidth=3.2 if first else 1.6,
        zorder=2 if first else 3,
    )


def _rates(axes: Any, groups: Groups) -> None:
    asked = sorted({entries for entries, *_ in groups})
    axes.plot(asked, asked, color=FAINT, linewidth=1, linestyle=(0, (2, 3)))
    for subject in ORDER:
        found = ((n, of(t, "rate")) for n, _, s, t in groups if s == subject)
        points = [(n, rate) for n, rate in found if rate]
        if points:
            _line(axes, subject, points)
    axes.set(xscale="log", yscale="log", xlabel="messages due each second")
    axes.set_title("messages sent each second", size=10, color=FAINT)
    _plain_ticks(axes.xaxis, asked)
    _plain_ticks(axes.yaxis, asked)
    axes.grid(axis="y")
    axes.legend(frameon=False, loc="lower right", fontsize=8, labelspacing=0.3)


def _plain_ticks(axis: Any, values: list[int]) -> None:
    axis.set_ticks(values, labels=[f"{value:,}" for value in values])
    axis.set_ticks([], minor=True)


def _lateness(axes: Any, groups: Groups) -> None:
    for subject in ORDER:
        # ours behind the due instant; theirs, which name none, behind their first
        key = "message_ms" if Subject(subject).ours else "lag_ms"
        points = [
            (n, max(late, LEAST_MS))
            for n, _, s, t in groups
            if s == subject and (late := of(t, key, "p95")) is not None
        ]
        if points:
            _line(axes, subject, points)
    axes.set(xscale="log", yscale="log", xlabel="messages due each second")
    _plain_ticks(axes.xaxis, sorted({entries for entries, *_ in groups}))
    marks = {1: "≤ 1 ms", 10: "10 ms", 100: "100 ms", 1_000: "1 s", 10_000: "10 s"}
    axes.yaxis.set_ticks([*marks], labels=[*marks.values()])
    axes.yaxis.set_ticks([], minor=True)
    axes.set_title(
        "lateness, p95: pecker's behind the due instant,\n"
        "the others' behind their own first message",
        size=10,
        color=FAINT,
    )
    axes.grid(axis="y")
