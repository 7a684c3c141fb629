"""What it takes to ask a gate, and how soon a gate knows."""

from __future__ import annotations

from benchmarks.cells import grid
from benchmarks.results import Sample


def gate(samples: list[Sample]) -> str:
    """Return what a question takes, by who is asked."""
    lines = [
        [who, f"{us['p50']:,.2f}", f"{us['p99']:,.1f}"]
        for who, us in samples[-1]["us"].items()
    ]
    return grid(("may a task start? · who is asked", "p50, µs", "p99, µs"), lines)


def step(samples: list[Sample]) -> str:
    """Return how soon a step in traffic is seen."""
    lines = [
        [
            f"{estimator} · {place}",
            *(f"{ms[name] / 1e3:.2f}" for name in ("least", "p50", "p95", "most")),
        ]
        for place, found in samples[-1]["ms"].items()
        for estimator, ms in found.items()
    ]
    head = ("estimator · who knows", "soonest, s", "p50, s", "p95, s", "latest, s")
    return grid(head, lines)
