"""What a thousand messages cost in CPU time, and whose it is."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cells import loads, of
from benchmarks.charts.paper import FAINT, INK, beside, load, paper
from benchmarks.results import Sample
from benchmarks.schedules.subjects import Subject

PARTS = {
    "scheduler": ("scheduler_cpu_s_per_1000", "#0072b2"),
    "PostgreSQL": ("postgresql_cpu_s_per_1000", "#009e73"),
    "Redis": ("redis_cpu_s_per_1000", "#e69f00"),
}


def _us(subject: str, trials: list[Sample], part: str) -> float:
    if part == "PostgreSQL" and not Subject(subject).asks_postgres:
        return 0.0  # what it does by itself
    # seconds for a thousand are milliseconds for one
    return (of(trials, PARTS[part][0]) or 0.0) * 1e3


def draw(samples: list[Sample], path: Path) -> None:
    """The chart is in the file."""
    bars = {
        subject: [_us(subject, trials, part) for part in PARTS]
        for entries, broker, subject, trials in loads(samples)
        if broker == "redis" and entries == 1000
    }
    if not bars:
        bars = {"pecker": [0.0, 0.0, 0.0]}
    sums = {name: sum(parts) for name, parts in bars.items()}
    title = f"A message costs pecker {sums.get('pecker', 0):,.0f} µs of CPU time"
    others = [total for name, total in sums.items() if not Subject(name).ours]
    if others:
        title += f", the others {min(others):,.0f} to {max(others):,.0f} µs"
    under = (
        f"Scheduler and servers, 1,000 entries due every second, Redis{load(samples)}"
    )
    with paper(path, title, under, height=1.6 + 0.45 * len(bars)) as (_, axes):
        left = [0.0] * len(bars)
        names = list(bars)
        for nth, (part, (_key, colour)) in enumerate(PARTS.items()):
            widths = [values[nth] for values in bars.values()]
            axes.barh(names, widths, left=left, color=colour, label=part, height=0.62)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for at, total in enumerate(left):
            beside(axes, f"{total:,.0f}", (total, at))
        axes.invert_yaxis()
        axes.set_xlabel("microseconds of CPU time for each message")
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_color(FAINT)
        axes.grid(axis="x")
        axes.margins(x=0.1)
        axes.legend(frameon=False, loc="upper right")
