"""What was to be reached with throttle, and what was."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.results import Results, Sample
from benchmarks.verdict import Verdict


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of the gate."""
    return [
        *_meter(results.samples("throttle_meter")),
        *_gate(results.samples("throttle_gate")),
        *_step(results.samples("throttle_step")),
        *_loop(results.samples("throttle_loop")),
        *_turns(results.samples("throttle_turns")),
        *_hook(results.samples("throttle_hook")),
        *_hold(results.samples("throttle_hold")),
    ]


def _loop(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["what"] == "gate":
            yield Verdict(
                target="endless backlog: peak second ≤ limit + 5 %, use ≥ 90 %:"
                f" {one['workers']} workers, {one['estimator']}",
                measured=f"peak {one['peak']:.1%}, use {one['use']:.1%}",
                met=one["peak"] <= 1.05 and one["use"] >= 0.9,
            )


def _turns(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        yield Verdict(
            target="large runs, by PostgreSQL: busiest second ≤ limit + one run,"
            f" use ≥ 85 %: {one['workers']} workers, {one['estimator']}",
            measured=f"busiest second {one['peak']:.1%}, use {one['use']:.1%}",
            met=one["peak"] <= 1.0 + one["part"] and one["use"] >= 0.85,
        )


NOT_THE_GATE = ("both without the gate", "the guard on Redis alone")
"""How pairs end that show something else."""


def _hook(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if "hook_us" in one:
            yield Verdict(
                target="the hook itself ≤ 10 µs of the main process per admitted task",
                measured=f"{one['hook_us']:.1f} µs",
                met=one["hook_us"] <= 10,
            )
    for one in samples:
        if "ratio" not in one or one["pool"].endswith(NOT_THE_GATE):
            continue
        yield Verdict(
            target=f"throughput with the gate, 95 % interval above 0.97: {one['pool']}",
            measured=f"{one['low']:.3f} to {one['high']:.3f}",
            met=one["low"] > 0.97,
        )
        yield Verdict(
            target="main process ≤ 10 µs per admitted task, with all that runs"
            f" beside the hook: {one['pool']}",
            measured=f"{one['main_us']:+.1f} µs",
            met=one["main_us"] <= 10,
        )


def _hold(samples: list[Sample]) -> Iterator[Verdict]:
    released = [one for one in samples if one["what"].startswith("release")]
    if released:
        last = max(one["last_ms"] for one in released)
        yield Verdict(
            target="1,000 held tasks are with the pool ≤ 100 ms after the opening",
            measured=f"latest {last:.0f} ms after Redis was told, of which"
            f" {max(one['took_ms'] for one in released):.0f} ms from the first to"
            " the last",
            met=last <= 100,
        )
    for one in samples:
        if one["what"] == "isolation":
            yield Verdict(
                target="10,000 held for one database: another loses ≤ 5 %",
                measured=f"{one['low']:.3f} to {one['high']:.3f}",
                met=one["ratio"] >= 0.95,
            )
        if one["what"].startswith("away"):
            yield Verdict(
                target="Redis of the traffic killed: the loop pauses ≤ 5 ms",
                measured=f"{one['pause_ms']['away']:.1f} ms (before:"
                f" {one['pause_ms']['before']:.1f} ms)",
                met=one["pause_ms"]["away"] <= 5,
            )


def _meter(samples: list[Sample]) -> Iterator[Verdict]:
    targets = {"psycopg": (0.3, 0.8), "psycopg, async": (0.5, 1.0)}
    for one in samples:
        if one["way"] == "alone":
            for place in ("", ", in a child"):
                for who, most in zip(
                    (f"throttle, operations only{place}", f"throttle{place}"),
                    targets[one["what"]],
                    strict=True,
                ):
                    yield Verdict(
                        target=f"counting costs a statement ≤ {most:g} µs:"
                        f" {one['what']}, {who}",
                        measured=f"{one['us'][who]:.2f} µs",
                        met=one["us"][who] <= most,
                    )


def _gate(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples[-1:]:
        us = {who: took["p50"] for who, took in one["us"].items()}
        ours = {who: took for who, took in us.items() if who.startswith("gate")}
        yield Verdict(
            target="a gate's decision ≤ 2 µs median, without I/O",
            measured=", ".join(f"{who} {took:.2f}" for who, took in ours.items())
            + f"; a bare script in Redis {us['a script that does nothing']:.0f}",
            met=max(ours.values()) <= 2,
        )


def _step(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples[-1:]:
        for estimator, most in (("fast", 0.45), ("weighted", 2.7)):
            seen = {
                place: ms[estimator]["most"] / 1e3 for place, ms in one["ms"].items()
            }
            yield Verdict(
                target=f"a step in traffic is seen by *{estimator}* within {most:g} s",
                measured=", ".join(f"{s:.2f} s {place}" for place, s in seen.items())
                + f", the latest of {one['steps']}",
                met=seen["in Redis"] <= most,
            )
