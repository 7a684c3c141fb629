"""What was measured of the groomer is judged, and each figure has its place."""

from __future__ import annotations

from pathlib import Path

from benchmarks.groomer import targets as groomer_targets
from benchmarks.results import Results, Sample
from benchmarks.tables.groomer import table

FACTS: dict[str, str] = {}
RATES = {"a lock on the room": 10.0, "single statements": 700, "batches of 100": 2_000}
TRIALS: list[Sample] = [
    {"way": way, "delay_ms": delay, "ping_ms": 1.0, "per_second": rate}
    for delay in (0, 1, 30)
    for way, rate in RATES.items()
]
MILLION: Sample = {
    "way": "very many reports",
    "reports": 1_000_000,
    "per_second": 9_000,
    "lies": 9,
    "invitations": 8,
    "swept": 7,
    "lost": 0,
    "orphans": 0,
    "twice": 0,
}
SPLITS: Sample = {
    "way": "calls that a frozen server splits",
    "calls": 600,
    "switched": 200,
    "splits": 200,
    "split_s": {"p50": 1.0, "p95": 2.0, "p99": 5.0, "max": 6.0},
    "still_split": 0,
    "invited": 800,
    "invited_twice": 0,
    "refused": 90,
    "pulled": 0,
}


def judged(folder: Path, *samples: Sample) -> list[bool]:
    """Return whether each target is met."""
    results = Results(folder)
    for one in samples:
        results.add("groomer", FACTS, one)
    return [one.met for one in groomer_targets.verdicts(results)]


def test_each_figure_has_its_target(tmp_path: Path) -> None:
    """Two ways on three lines, the account of a million, and the splits."""
    samples = [*TRIALS, MILLION, SPLITS]
    assert judged(tmp_path, *samples) == [True] * 9
    shown = table(samples)
    assert "2,000 (**200 times**)" in shown
    assert "600 | 200 | 200 | 1.00 / 5.00 / 6.00 | 0 | 800 | 0 | 90 | 0" in shown


def test_what_is_too_long_or_wrong_is_not_met(tmp_path: Path) -> None:
    """A split of more than 5 s, a call that stays split, a peer invited twice."""
    long = {**SPLITS, "split_s": {**SPLITS["split_s"], "p99": 5.1}}
    wrong = {**SPLITS, "still_split": 1}
    assert judged(tmp_path, long, wrong) == [False, True, True, False]
    assert judged(tmp_path / "lost", {**MILLION, "lost": 1}) == [False]
