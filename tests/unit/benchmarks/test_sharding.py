"""The figures of sharded jobs: what is counted outlives its process, verdicts see."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tables
from benchmarks.results import Results
from benchmarks.schedules.trial import ROOT
from benchmarks.sharding import targets as sharding_targets
from benchmarks.sharding import touched
from benchmarks.sharding.touched import Counts

KILL: dict[str, Any] = {
    "who": "celery_sharding",
    "lease": 5.0,
    "victim": "worker",
    "again_s": 5.4,
    "completed": True,
    "lost": 0,
    "repeated": 9,
    "plan": "full",
}
CONTROL: dict[str, Any] = {
    "statements": ["/* celery_sharding:pause_job */"],
    "call_ms": 3.0,
    "effective_s": 0.4,
}
MS: dict[str, float] = {"p50": 47.0, "p95": 53.0, "p99": 55.0}
SHORT: dict[str, Any] = {
    "way": "one",
    "items": 10,
    "ms": {"celery_sharding": MS, "chord": {**MS, "p50": 47.0}},
}
BACKLOG: dict[str, Any] = {
    "way": "many",
    "jobs": 9,
    "ended": 9,
    "first_s": 1.0,
    "median_s": 7.0,
    "last_s": 11.0,
}
SAMPLES: dict[str, dict[str, Any]] = {
    "sharding_many": {
        "who": "celery_sharding",
        "shards": 10_000,
        "items": 2,
        "submit_s": 0.1,
        "total_s": 3.0,
        "cpu_s": {"workers": 2.0},
    },
    "sharding_submit": {
        "way": "Source",
        "items": 9,
        "calls": 3,
        "first_ms": 30.0,
        "ms": {"p50": 2.0, "p95": 3.0, "p99": 4.0},
    },
    "sharding_items": {
        "kind": "list",
        "items": 9,
        "shards": 3,
        "layers": 4,
        "us": 9.0,
        "makespan_s": 2.0,
        "alone_s": 0.1,
        "cpu_us": {"workers": 1.0},
        "parts": {"plan_s": 0.1, "run_s": 1.0, "close_s": None},
    },
    "sharding_kill": KILL,
    "sharding_poison": {
        "who": "celery_sharding",
        "items": 9,
        "reported": 1,
        "right": True,
        "codes": [403],
        "deaths": 6,
        "again": 3,
        "seconds": 2.0,
        "never_begun": 0,
    },
    "sharding_post": {
        "who": "celery_sharding",
        "results": 9,
        "letters": 200,
        "grown_mb": 9.0,
    },
    "sharding_control": {
        "queued": 9,
        "pause": CONTROL,
        "resume": CONTROL,
        "cancel": {**CONTROL, "statements": ["/* celery_sharding:decide_job */"]},
    },
    "sharding_flower": {
        "shards": 10_000,
        "requests": 9,
        "pages": {"a job's data": {"ms": {"p50": 1, "p95": 2, "p99": 3}, "bytes": 900}},
    },
    "sharding_short": SHORT,
    "sharding_open": {
        "jobs": 9,
        "found_s": {"held": 0.1, "sent": 5.0},
        "given_up_s": 120.0,
        "sweep_ms": 9.0,
        "pages": {"the list's data": {"ms": {"p50": 1, "p95": 50, "p99": 3}}},
    },
}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Give results in which each row has a trial that is as it should be."""
    made = Results(tmp_path)
    for row, sample in SAMPLES.items():
        made.add(row, {"when": "now", "machine": "this"}, {"plan": "full", **sample})
    return made


def test_each_row_has_a_table(results: Results) -> None:
    """It says what was measured."""
    told = tables.report(results, SAMPLES)
    for row in SAMPLES:
        assert tables.TABLES[row][0] in told


def test_what_is_as_promised_is_met(results: Results) -> None:
    """Each row has a verdict."""
    found = sharding_targets.verdicts(results)
    assert len(found) == len(SAMPLES) + 3
    assert all(one.met for one in found)


@pytest.mark.parametrize(
    ("row", "worse"),
    [
        ("sharding_many", {"total_s": 5.1}),
        ("sharding_submit", {"ms": {"p50": 2.0, "p95": 201.0, "p99": 300.0}}),
        ("sharding_items", {"us": 61.0}),
        ("sharding_kill", {"again_s": 7.1}),
        ("sharding_kill", {"lost": 1}),
        ("sharding_poison", {"reported": 2}),
        ("sharding_poison", {"right": False}),
        ("sharding_poison", {"never_begun": 1}),
        ("sharding_poison", {"seconds": 10.1}),
        ("sharding_post", {"grown_mb": 65.0}),
        ("sharding_control", {"pause": {**CONTROL, "effective_s": 1.1}}),
        ("sharding_control", {"cancel": {**CONTROL, "statements": []}}),
        ("sharding_short", {"ms": {**SHORT["ms"], "chord": {**MS, "p50": 1.0}}}),
        ("sharding_short", {**BACKLOG, "median_s": 7.1}),
        ("sharding_short", {**BACKLOG, "ended": 8}),
        ("sharding_open", {"found_s": {"held": 0.1, "sent": 5.1}}),
        ("sharding_open", {"found_s": {"held": None, "sent": 0.1}}),
        ("sharding_open", {"pages": {"it": {"ms": {**MS, "p95": 51}}}}),
    ],
)
def test_what_is_worse_is_not_met(
    results: Results, row: str, worse: dict[str, Any]
) -> None:
    """And said so."""
    results.clear(row)
    results.add(row, {}, {"plan": "full", **SAMPLES[row], **worse})
    assert [one for one in sharding_targets.verdicts(results) if not one.met]


DYING = """
import os, signal, sys
from pathlib import Path
from benchmarks.sharding.touched import Counts, Instants

folder = Path(sys.argv[1])
Counts(folder / "counts", 10).bytes[7] += 1
Instants(folder).begun(7, 3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_began_is_counted(tmp_path: Path) -> None:
    """In memory that it shares, and in its file, until the moment of its death."""
    counts = Counts(tmp_path / "counts", 10)
    dying = subprocess.Popen([sys.executable, "-c", DYING, str(tmp_path)], cwd=ROOT)
    assert dying.wait() == -signal.SIGKILL
    assert counts.read().tolist() == [0] * 7 + [1, 0, 0]
    begun = touched.read(tmp_path)[dying.pid]
    assert begun[["statements", "nr"]].tolist() == [(3, 7)]
    assert touched.latest(tmp_path) > 0
    counts.close()
