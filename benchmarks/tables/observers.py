"""Observers: what they cost asleep, and how long they do not run."""

from __future__ import annotations

from benchmarks.cells import NONE, grid
from benchmarks.results import Sample

ONE = "one of four"
"""The drain of a host, beside a deploy that replaces them all."""
SLOWEST = 8
"""Statements that a table shows."""


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
    rows = [
        (f"{one.get('way', ONE)}: {one['moved']:,} in {one['seconds']:.1f} s", one)
        for one in samples
    ]
    return _gaps(rows)


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


def freeze(samples: list[Sample]) -> str:
    """Return what a thawed host did."""
    lines = [
        [
            f"{one['frozen']} s, {one['lives']:,} lives",
            _spread(one["ended_ms"]),
            f"{one['attempts']:,}",
            f"{one['refused']:,}",
            f"{one['broken']:,}",
            f"{one['written']}",
            _spread(one["gap_s"]),
        ]
        for one in samples
    ]
    return grid(
        (
            "frozen",
            "user code ended after the thaw, p50 / p99 / max, ms",
            "guarded writes tried then",
            "refused by the guard",
            "in a transaction that the server had ended",
            "written",
            "ran elsewhere after, p50 / p99 / max, s",
        ),
        lines,
    )


def outage(samples: list[Sample]) -> str:
    """Return who ended and who went on while the database was away."""
    lines = [
        [
            f"{one['way']}, {one['away_s']:.1f} s",
            f"{one['dead']} of {one['hosts']}",
            f"{one['ended']:,} of {one['stop']:,}",
            _spread(one["after_return_s"]),
            f"{one['go_on'] - one['disturbed']:,} of {one['go_on']:,}",
        ]
        for one in samples
    ]
    return grid(
        (
            "PostgreSQL",
            "hosts called dead",
            "`stop`: ended meanwhile",
            "ran again after the return, p50 / p99 / max, s",
            "`go_on`: ran on undisturbed",
        ),
        lines,
    )


def blackout(samples: list[Sample]) -> str:
    """Return when all ran again."""
    lines = [
        [
            f"{one['observers']:,} on {one['hosts']} hosts",
            f"{one['up_s']:.1f}",
            _spread(one["after_return_s"]),
        ]
        for one in samples
    ]
    head = ("", "hosts are up after, s", "observers run after, p50 / p99 / max, s")
    return grid(head, lines)


def swarm(samples: list[Sample]) -> str:
    """Return the statements that took longest, for each number of observers."""
    most = max(samples, key=lambda one: one["observers"])
    slowest = sorted(most["statements"].items(), key=lambda one: -one[1]["max_ms"])
    lines = [
        [f"`{label}`", *(_timed(one["statements"].get(label)) for one in samples)]
        for label, _ in slowest[:SLOWEST]
    ]
    gaps = [_spread(one["gap_s"]) for one in samples]
    lines.append(["*gap after kill -9 of one host, p50 / p99 / max, s*", *gaps])
    lines.append(["*begun within, s*", *(f"{one['filled_s']:.0f}" for one in samples)])
    head = [f"{one['observers']:,}: calls, mean / max, ms" for one in samples]
    return grid(("statement", *head), lines)


def endless(samples: list[Sample]) -> str:
    """Return what becomes of what never ends."""
    lines = []
    for one in samples:
        if "runs" in one:
            limit = f"{one['patience_s']:.0f} s (default {one['default_s']:,} s)"
            runs = f"{one['runs']} runs within {one['watched_s']} s"
            lines.append(
                [
                    f"unacknowledged task, {one['what']}, {limit}",
                    f"{runs}, {one['at_once']} at the same time",
                    f"{one['ended']} of {one['workers']} workers ended",
                ]
            )
            continue
        end = f"ended after {one['seconds']:.1f} s"
        if not one["ended"]:
            end = f"had not ended after {one['seconds']:.0f} s: it had to be killed"
        where = "runs on in the worker that is to end"
        if "gap_s" in one:
            where = f"runs on another host after {one['gap_s']:.2f} s"
        lines.append([f"{one['what']}, SIGTERM", where, end])
    return grid(("", "what runs", "its process"), lines)


def _timed(one: Sample | None) -> str:
    if one is None:
        return NONE
    if one["mean_ms"] is None:
        return f"{one['cancelled']} cancelled"
    text = f"{one['calls']:,}: {one['mean_ms']:.1f} / {one['max_ms']:.0f}"
    return f"{text}, {one['cancelled']} cancelled" if one["cancelled"] else text


def _spread(one: Sample) -> str:
    return " / ".join(f"{one[key]:.2f}" for key in ("p50", "p99", "max"))


def _gaps(rows: list[tuple[str, Sample]]) -> str:
    lines = [[name, _spread(one["gap_s"])] for name, one in rows]
    return grid(("observers of one host", "do not run for, p50 / p99 / max, s"), lines)
