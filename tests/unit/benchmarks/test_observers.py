"""What was measured of observers is judged by what was asked."""

from __future__ import annotations

from pathlib import Path

from benchmarks import observers_targets, tables
from benchmarks.results import Results, Sample

FACTS = {"when": "now", "machine": "this one"}
SPREAD = {"p50": 0.5, "p95": 0.9, "p99": 1.0, "max": 1.2}
QUIET = {
    "observers": 10_000,
    "hosts": 4,
    "transactions_per_second": 12.0,
    "updates_per_second": 8.0,
    "wal_per_second": 1_100.0,
    "cores": {"hosts": 0.02, "postgresql": 0.04},
    "hosts_mb": 180.0,
    "supervisors_mb": 230.0,
}
SAMPLES: dict[str, Sample] = {
    "observers_quiet": QUIET,
    "observers_kill": {"way": "the host alone", "killed": 9, "gap_s": SPREAD},
    "observers_join": {
        "observers": 9,
        "seconds": 11.0,
        "moves": 11,
        "least": 10,
        "before": 0,
        "ratio": 1.1,
    },
    "observers_drain": {"moved": 9, "seconds": 1.0, "gap_s": SPREAD},
}


def test_each_figure_has_its_target(tmp_path: Path) -> None:
    """What is at its limit is met; a table has each row."""
    results = Results(tmp_path)
    for row, sample in SAMPLES.items():
        results.add(row, FACTS, {**sample, "plan": "quick"})
    met = {one.target: one.met for one in observers_targets.verdicts(results)}
    assert [target for target, is_met in met.items() if not is_met] == [
        "10,000 asleep: ≤ 0.05 core, hosts and PostgreSQL",
        "10,000 asleep: ≤ 250 MB, all hosts and their own supervisors",
        "even ≤ 10 s after a host has joined",
    ]
    assert len(met) == 8
    told = tables.report(results, SAMPLES)
    assert all(tables.TABLES[row][0] in told for row in SAMPLES)
