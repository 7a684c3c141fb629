"""What was to be reached with the groomer, and what was."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.results import Results, Sample
from benchmarks.tables.groomer import rates, times
from benchmarks.verdict import Verdict

ASKED = {
    "batches of 100": {0: 30, 1: 100, 30: 200},
    "single statements": {0: 4, 1: 15, 30: 70},
}
SPLIT = 5.0


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of the groomer."""
    samples = results.samples("groomer")
    made = []
    for way, asked in ASKED.items():
        for delay, ways in rates(samples).items():
            if way in ways and len(ways) > len(ASKED):
                factor = times(ways, way)
                made.append(
                    Verdict(
                        target=f"{way} on a line of {delay} ms: ≥ {asked[delay]} times"
                        " the rate under a lock",
                        measured=f"{factor:,.1f}",
                        met=factor >= asked[delay],
                    )
                )
    for one in samples:
        made += _account(one) if "twice" in one else []
        made += _splits(one) if "split_s" in one else []
    return made


def _account(one: Sample) -> Iterator[Verdict]:
    wrong = [one[key] for key in ("lost", "orphans", "twice")]
    yield Verdict(
        target=f"{one['reports']:,} reports: 0 lost, 0 orphans, 0 invited twice",
        measured=", ".join(f"{many:,}" for many in wrong),
        met=not any(wrong),
    )


def _splits(one: Sample) -> Iterator[Verdict]:
    p99 = one["split_s"]["p99"]
    wrong = [one[key] for key in ("still_split", "invited_twice", "pulled")]
    yield Verdict(
        target=f"a split lasts ≤ {SPLIT:g} s (p99)",
        measured=f"{p99:.1f} s, {one['splits']} splits",
        met=p99 <= SPLIT,
    )
    yield Verdict(
        target="0 calls split at the end, 0 peers invited twice, 0 pulled back",
        measured=", ".join(f"{many:,}" for many in wrong),
        met=not any(wrong),
    )
