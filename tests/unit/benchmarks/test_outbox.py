"""What the rows of the outbox make of figures: tables, intervals, a chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.charts import outbox as charts
from benchmarks.outbox import targets as outbox_targets
from benchmarks.results import Results
from benchmarks.rows import outbox_commits

PEERS: list[dict[str, Any]] = [
    {
        "subject": "celery-pecker",
        "what": "to Redis",
        "calls_rate": 4_000,
        "commits_rate": 900,
        "rate": 20_000,
        "ms": {"p50": 26.0, "p95": 51.0, "p99": 54.0},
    },
    {"subject": "plain delay()", "what": "", "calls_rate": 3_000},
]
COMMITS = {
    "clients": 16,
    "rate": {"outbox": 950, "plain": 1_000},
    "cpu_us": {"outbox": 60.0, "plain": 55.0},
    "ratio": 0.95,
    "interval": [0.93, 0.97],
    "pairs": [0.95] * 20,
}


def test_what_records_nothing_has_no_commits() -> None:
    """The table and the chart leave them out."""
    title, table = tables.TABLES["outbox_peers"]
    lines = table(PEERS).splitlines()
    assert title == "Beside others"
    assert lines[-2].startswith("| celery-pecker (to Redis) | 4,000 | 900 | 20,000 |")
    assert lines[-1] == "| plain delay() | 3,000 | - | - | - |"


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    """With a panel for each figure."""
    charts.draw_peers([{**one, "load": 1.0} for one in PEERS], tmp_path / "peers.svg")
    assert "celery-pecker" in (tmp_path / "peers.svg").read_text()


def test_commits_are_judged_by_the_median_of_pairs(tmp_path: Path) -> None:
    """Their interval stands beside it."""
    results = Results(tmp_path)
    results.add("outbox_commits", {"when": "now"}, COMMITS)
    (verdict,) = outbox_targets.verdicts(results)
    assert (verdict.met, verdict.measured) == (True, "0.95 (0.93 to 0.97)")
    assert "0.93 to 0.97, 20 pairs" in tables.TABLES["outbox_commits"][1]([COMMITS])


def test_pairs_that_are_alike_have_a_narrow_interval() -> None:
    """One that is far off moves neither end of it."""
    pairs = [1.0] * 20
    assert outbox_commits._interval(pairs) == (1.0, 1.0)
    assert outbox_commits._interval([*pairs, 9.0]) == (1.0, 1.0)
