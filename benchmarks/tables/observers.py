"""Observers: what they cost asleep, and how long they do not run."""

from __future__ import annotations

from benchmarks.cells import NONE, columns, grid
from benchmarks.results import Sample

ONE = "one of four"
"""The drain of a host, beside a deploy that replaces them all."""
SLOWEST = 8
"""Statements that a table shows."""


def quiet(samples: list[Sample]) -> str:
    """Return what sleeping observers cost."""
    return columns(
        samples,
        {
            "": "{observers:,} on {hosts} hosts",
            "transactions/s": "{transactions_per_second:g}",
            "row updates/s": "{updates_per_second:g}",
            "WAL, kB/s": lambda one: f"{one['wal_per_second'] / 1e3:.1f}",
            "cores": lambda one: ", ".join(
                f"{who} {cores:.3f}" for who, cores in one["cores"].items()
            ),
            "memory of hosts and of supervisors, MB": (
                "{hosts_mb:.0f} and {supervisors_mb:.0f}"
            ),
        },
    )


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
    return columns(
        samples,
        {
            "observers": "{observers:,}",
            "even after, s": "{seconds:.1f}",
            "moved": "{moves:,}",
            "least that must move": "{least:,}",
            "moved at the start of the first three": "{before:,}",
        },
    )


def freeze(samples: list[Sample]) -> str:
    """Return what a thawed host did."""
    return columns(
        samples,
        {
            "frozen": "{frozen} s, {lives:,} lives",
            "user code ended after the thaw, p50 / p99 / max, ms": lambda one: _spread(
                one["ended_ms"]
            ),
            "guarded writes tried then": "{attempts:,}",
            "refused by the guard": "{refused:,}",
            "in a transaction that the server had ended": "{broken:,}",
            "written": "{written}",
            "ran elsewhere after, p50 / p99 / max, s": lambda one: _spread(
                one["gap_s"]
            ),
        },
    )


def outage(samples: list[Sample]) -> str:
    """Return who ended and who went on while the database was away."""
    return columns(
        samples,
        {
            "PostgreSQL": "{way}, {away_s:.1f} s",
            "hosts called dead": "{dead} of {hosts}",
            "`stop`: ended meanwhile": "{ended:,} of {stop:,}",
            "ran again after the return, p50 / p99 / max, s": lambda one: _spread(
                one["after_return_s"]
            ),
            "`go_on`: ran on undisturbed": lambda one: (
                f"{one['go_on'] - one['disturbed']:,} of {one['go_on']:,}"
            ),
        },
    )


def blackout(samples: list[Sample]) -> str:
    """Return when all ran again."""
    return columns(
        samples,
        {
            "": "{observers:,} on {hosts} hosts",
            "hosts are up after, s": "{up_s:.1f}",
            "observers run after, p50 / p99 / max, s": lambda one: _spread(
                one["after_return_s"]
            ),
        },
    )


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
