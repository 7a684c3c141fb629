"""Observers: what they cost asleep, and how long they do not run."""

from __future__ import annotations

from benchmarks.cells import grid
from benchmarks.results import Sample


def quiet(samples: list[Sample]) -> str:
    """Return what sleeping observers cost."""
    lines = [
        [
            f"{one['observers']:,} on {one['hosts']} hosts",
            f"{one['transactions_per_second']:g}",
            f"{one['updates_per_second']:g}",
            f"{one['wal_per_second'] / 1e3:.1f}",
            ", ".join(f"{who} {cores:.3f}" for who, cores in one["cores"].items()),
            f"{one['hosts_mb']:.0f} and {one['supervisors_mb']:.0f}",
        ]
        for one in samples
    ]
    head = ("", "transactions/s", "row updates/s", "WAL, kB/s", "cores")
    return grid((*head, "memory of hosts and of supervisors, MB"), lines)


def kill(samples: list[Sample]) -> str:
    """Return the gaps after a kill."""
    return _gaps([(f"{one['way']}: {one['killed']:,}", one) for one in samples])


def drain(samples: list[Sample]) -> str:
    """Return the gaps in a drain."""
    return _gaps(
        [(f"{one['moved']:,} within {one['seconds']:.1f} s", one) for one in samples]
    )


def join(samples: list[Sample]) -> str:
    """Return how soon the load was even."""
    lines = [
        [
            f"{one['observers']:,}",
            f"{one['seconds']:.1f}",
            f"{one['moves']:,}",
            f"{one['least']:,}",
            f"{one['before']:,}",
        ]
        for one in samples
    ]
    head = ("observers", "even after, s", "moved", "least that must move")
    return grid((*head, "moved at the start of the first three"), lines)


def _gaps(rows: list[tuple[str, Sample]]) -> str:
    figures = ("p50", "p99", "max")
    lines = [
        [name, " / ".join(f"{one['gap_s'][key]:.2f}" for key in figures)]
        for name, one in rows
    ]
    return grid(("observers of one host", "do not run for, p50 / p99 / max, s"), lines)
