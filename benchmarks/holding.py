"""What was to be reached with the gate before the pool, and what was."""

from __future__ import annotations

from benchmarks.results import Results, Sample
from benchmarks.verdict import Verdict


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of the gate."""
    return [
        *_loop(results.samples("throttle_loop")),
        *_hook(results.samples("throttle_hook")),
        *_hold(results.samples("throttle_hold")),
    ]


def _loop(samples: list[Sample]) -> list[Verdict]:
    return [
        Verdict(
            target="endless backlog: peak second ≤ limit + 5 %, use ≥ 90 %:"
            f" {one['workers']} workers, {one['estimator']}",
            measured=f"peak {one['peak']:.1%}, use {one['use']:.1%}",
            met=one["peak"] <= 1.05 and one["use"] >= 0.9,
        )
        for one in samples
        if one["what"] == "gate"
    ]


def _hook(samples: list[Sample]) -> list[Verdict]:
    found = []
    for one in samples:
        found += [
            Verdict(
                target=f"throughput with the gate, 95 % interval above 0.95:"
                f" {one['pool']}",
                measured=f"{one['low']:.3f} to {one['high']:.3f}",
                met=one["low"] > 0.95,
            ),
            Verdict(
                target=f"main process ≤ 10 µs per admitted task: {one['pool']}",
                measured=f"{one['main_us']:+.1f} µs",
                met=one["main_us"] <= 10,
            ),
        ]
    return found


def _hold(samples: list[Sample]) -> list[Verdict]:
    found = []
    released = [one for one in samples if one["what"].startswith("release")]
    if released:
        last = max(one["last_ms"] for one in released)
        found.append(
            Verdict(
                target="1,000 held tasks are with the pool ≤ 100 ms after the opening",
                measured=f"latest {last:.0f} ms after Redis was told, of which"
                f" {max(one['took_ms'] for one in released):.0f} ms from the first to"
                " the last",
                met=last <= 100,
            )
        )
    for one in samples:
        if one["what"] == "isolation":
            found.append(
                Verdict(
                    target="10,000 held for one database: another loses ≤ 5 %",
                    measured=f"{one['low']:.3f} to {one['high']:.3f}",
                    met=one["ratio"] >= 0.95,
                )
            )
        if one["what"].startswith("away"):
            found.append(
                Verdict(
                    target="Redis of the traffic killed: the loop pauses ≤ 5 ms",
                    measured=f"{one['pause_ms']['away']:.1f} ms (before:"
                    f" {one['pause_ms']['before']:.1f} ms)",
                    met=one["pause_ms"]["away"] <= 5,
                )
            )
    return found
