"""What was measured of stored schedules is read, and judged by what was asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.results import Results, Sample
from benchmarks.rows.stored_edit import effects
from benchmarks.schedules import targets as stored_targets
from benchmarks.schedules.arrivals import Arrivals
from benchmarks.schedules.subjects import Subject

FACTS = {"when": "now", "machine": "this one"}
SPREAD = {"p50": 0.3, "p95": 0.9, "p99": 1.0, "max": 1.2}
START = {"ready_s": 5.0, "rss_mb": 300.0, "cpu_ms": 7.0, "commits": 3.0}
BUSY = {"replicas": 1, "every": 10, "due": 1_000, "late_ms": None, "edits_rate": 900}
SAMPLES: dict[str, list[Sample]] = {
    "stored_edit": [{"edits": 5, "never": 0, "added_s": SPREAD, "removed_s": SPREAD}],
    "stored_start": [
        {**START, "entries": 20_000, "subject": Subject.FAST},
        *({**START, "entries": n} for n in (100, 100_000)),
    ],
    "stored_busy": [{**BUSY, "delivered": 1_000, "share": 1.0, "doubled": 0}],
}


@pytest.mark.parametrize("worse", [False, True])
def test_each_figure_has_its_target(tmp_path: Path, *, worse: bool) -> None:
    """What is at its limit is met, what is beyond is not; a table has each row."""
    late = {**SPREAD, "p99": 1.01}
    beyond: dict[str, Sample] = {
        "stored_edit": {"added_s": late, "removed_s": late},
        "stored_start": {"ready_s": 5.1, "cpu_ms": 99.0},
        "stored_busy": {"doubled": 1},
    }
    results = Results(tmp_path)
    for row, samples in SAMPLES.items():
        for nth, sample in enumerate(samples):
            last = nth == len(samples) - 1 or "subject" in sample
            more = beyond[row] if worse and last else {}
            head = {"plan": "quick", "subject": Subject.STORED}
            results.add(row, FACTS, {**head, **sample, **more})
    met = {one.target: one.met for one in stored_targets.verdicts(results)}
    assert len(met) == 6
    assert set(met.values()) == {not worse}
    report = tables.report(results, SAMPLES)
    assert "100,000, pecker, stored" in report
    assert report.count("pecker, stored") == 4


def test_effects_of_edits() -> None:
    """The first message counts less the period, the last from the removal on."""
    arrivals = Arrivals(
        np.array([7, 7, 1, 7]), np.array([10.4, 12.0, 12.1, 12.6]), np.array([])
    )
    made = [(7, 10.0, 12.5), (8, 20.0, 22.0)]
    sample = effects(arrivals, made)
    assert sample["never"] == 1
    assert sample["added_s"]["max"] == pytest.approx(0.3)
    assert sample["removed_s"]["max"] == pytest.approx(0.1)
