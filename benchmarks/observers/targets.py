"""What was to be reached with observers, and what was."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.results import Results, Sample
from benchmarks.tables.observers import ONE
from benchmarks.verdict import Verdict

OF_PEOPLE = {
    *("summarize_observers", "search_observers", "read_observer_history"),
    *("count_observer_notices", "list_observer_nodes"),
}
"""Statements on which no host waits."""


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of observers."""
    made: list[Verdict] = []
    for row, judge in (
        ("observers_quiet", _quiet),
        ("observers_kill", _kill),
        ("observers_join", _join),
        ("observers_drain", _drain),
        ("observers_freeze", _freeze),
        ("observers_outage", _outage),
        ("observers_blackout", _blackout),
        ("observers_100k", _swarm),
    ):
        for one in results.samples(row):
            made += judge(one)
    return made


def _quiet(one: Sample) -> Iterator[Verdict]:
    many, cores = f"{one['observers']:,} asleep", sum(one["cores"].values())
    hosts = one["hosts_mb"]
    memory = hosts + one["supervisors_mb"]
    yield Verdict(
        target=f"{many}: ≤ 20 transactions a second",
        measured=f"{one['transactions_per_second']:g}",
        met=one["transactions_per_second"] <= 20,
    )
    yield Verdict(
        target=f"{many}: ≤ 0.05 core, hosts and PostgreSQL",
        measured=f"{cores:.3f}",
        met=cores <= 0.05,
    )
    yield Verdict(
        target=f"{many}: ≤ 250 MB, all hosts (supervised by workers)",
        measured=f"{hosts:.0f} MB",
        met=hosts <= 250,
    )
    yield Verdict(
        target=f"{many}: ≤ 250 MB, all hosts and their own supervisors",
        measured=f"{memory:.0f} MB",
        met=memory <= 250,
    )


def _kill(one: Sample) -> Iterator[Verdict]:
    yield Verdict(
        target=f"kill -9 of {one['way']} ({one['killed']:,}): gap p99 ≤ 8 s",
        measured=f"{one['gap_s']['p99']:.2f} s",
        met=one["gap_s"]["p99"] <= 8,
    )


def _join(one: Sample) -> Iterator[Verdict]:
    yield Verdict(
        target="even ≤ 10 s after a host has joined",
        measured=f"{one['seconds']:.1f} s",
        met=one["seconds"] <= 10,
    )
    yield Verdict(
        target="≤ 110 % of the least moves",
        measured=f"{one['ratio']:.0%}",
        met=one["ratio"] <= 1.1,
    )


def _drain(one: Sample) -> Iterator[Verdict]:
    gap, moved = one["gap_s"], one["moved"]
    if one.get("way", ONE) == ONE:
        yield Verdict(
            target=f"a host with {moved:,} hands over: gap p99 ≤ 1 s",
            measured=f"{gap['p99']:.2f} s",
            met=gap["p99"] <= 1,
        )
        return
    yield Verdict(
        target="rolling deploy of all hosts: no gap over a second",
        measured=f"longest of {moved:,}: {gap['max']:.2f} s",
        met=gap["max"] <= 1,
    )


def _freeze(one: Sample) -> Iterator[Verdict]:
    frozen, written = one["frozen"], one["written"]
    yield Verdict(
        target=f"frozen for {frozen} s: user code ended ≤ 250 ms after the thaw",
        measured=f"{one['ended_ms']['max']:.0f} ms",
        met=one["ended_ms"]["max"] <= 250,
    )
    yield Verdict(
        target=f"frozen for {frozen} s: stale guarded writes 0 of 1,000",
        measured=f"{written} of {one['attempts']:,}",
        met=written == 0 and one["attempts"] >= 1_000,
    )


def _outage(one: Sample) -> Iterator[Verdict]:
    by_policy = one["ended"] == one["stop"] and not one["disturbed"]
    yield Verdict(
        target=f"PostgreSQL {one['way']} for {one['away_s']:.0f} s: no host is"
        " called dead, each observer goes on by its policy",
        measured=f"{one['dead']} of {one['hosts']} hosts; {one['ended']:,} of"
        f" {one['stop']:,} ended and began anew, {one['disturbed']:,} of"
        f" {one['go_on']:,} others disturbed",
        met=by_policy and not one["dead"] and one["same_hosts"],
    )


def _blackout(one: Sample) -> Iterator[Verdict]:
    most = one["after_return_s"]["max"]
    yield Verdict(
        target="all hosts killed and started anew: each observer runs ≤ lease + 5 s"
        " after the return",
        measured=f"{most:.1f} s",
        met=most <= one["lease"] + 5,
    )


def _swarm(one: Sample) -> list[Verdict]:
    def worst(label: str) -> tuple[int, float]:
        took = one["statements"][label]
        return took["cancelled"], took["max_ms"]

    first = max(one["statements"].keys() - OF_PEOPLE, key=worst)
    cancelled, slowest = worst(first)
    limit = one["limit_s"] * 1e3
    breaks = one["observers"] * limit / slowest if slowest else math.inf
    return [
        Verdict(
            target=f"{one['observers']:,} observers: no statement takes longer than a"
            f" host waits ({limit:,.0f} ms)",
            measured=f"first to break: {first}, {slowest:,.0f} ms"
            + (f", {cancelled} cancelled" if cancelled else "")
            + f"; if it grows with them, at {breaks:,.0f} observers",
            met=slowest <= limit and not cancelled,
        )
    ]
