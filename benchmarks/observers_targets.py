"""What was to be reached with observers, and what was."""

from __future__ import annotations

from benchmarks.results import Results, Sample
from benchmarks.verdict import Verdict


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of observers."""
    made: list[Verdict] = []
    for row, judge in (
        ("observers_quiet", _quiet),
        ("observers_kill", _kill),
        ("observers_join", _join),
        ("observers_drain", _drain),
    ):
        for one in results.samples(row):
            made += judge(one)
    return made


def _quiet(one: Sample) -> list[Verdict]:
    many, cores = f"{one['observers']:,} asleep", sum(one["cores"].values())
    hosts = one["hosts_mb"]
    memory = hosts + one["supervisors_mb"]
    return [
        Verdict(
            target=f"{many}: ≤ 20 transactions a second",
            measured=f"{one['transactions_per_second']:g}",
            met=one["transactions_per_second"] <= 20,
        ),
        Verdict(
            target=f"{many}: ≤ 0.05 core, hosts and PostgreSQL",
            measured=f"{cores:.3f}",
            met=cores <= 0.05,
        ),
        Verdict(
            target=f"{many}: ≤ 250 MB, all hosts (supervised by workers)",
            measured=f"{hosts:.0f} MB",
            met=hosts <= 250,
        ),
        Verdict(
            target=f"{many}: ≤ 250 MB, all hosts and their own supervisors",
            measured=f"{memory:.0f} MB",
            met=memory <= 250,
        ),
    ]


def _kill(one: Sample) -> list[Verdict]:
    return [
        Verdict(
            target=f"kill -9 of {one['way']} ({one['killed']:,}): gap p99 ≤ 8 s",
            measured=f"{one['gap_s']['p99']:.2f} s",
            met=one["gap_s"]["p99"] <= 8,
        )
    ]


def _join(one: Sample) -> list[Verdict]:
    return [
        Verdict(
            target="even ≤ 10 s after a host has joined",
            measured=f"{one['seconds']:.1f} s",
            met=one["seconds"] <= 10,
        ),
        Verdict(
            target="≤ 110 % of the least moves",
            measured=f"{one['ratio']:.0%}",
            met=one["ratio"] <= 1.1,
        ),
    ]


def _drain(one: Sample) -> list[Verdict]:
    return [
        Verdict(
            target=f"a host with {one['moved']:,} hands over: gap p99 ≤ 1 s",
            measured=f"{one['gap_s']['p99']:.2f} s",
            met=one["gap_s"]["p99"] <= 1,
        )
    ]
