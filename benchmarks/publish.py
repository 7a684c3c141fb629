"""Puts results into the documentation: tables, charts, JSON, a summary for the README.

The page is written by hand but for what stands between `% begin: ROW` and `% end: ROW`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from benchmarks import charts, tables, targets
from benchmarks.groomer import targets as groomer_targets
from benchmarks.observers import targets as observers_targets
from benchmarks.outbox import targets as outbox_targets
from benchmarks.results import Results
from benchmarks.schedules import targets as stored_targets
from benchmarks.sharding import targets as sharding_targets
from benchmarks.tables import loads
from benchmarks.throttle import targets as throttle_targets

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = tuple(
    DOCS / "explanation" / name
    for name in (
        "performance.md",
        "throttle-performance.md",
        "sharding-performance.md",
        "outbox-performance.md",
        "groomer-performance.md",
        "observers-performance.md",
        "stored-performance.md",
    )
)
PICTURES = DOCS / "_static" / "benchmarks"
FROM_PAGE = "../_static/benchmarks"
NOTHING = "*Not measured yet: `python -m benchmarks`.*"
TARGETS = {
    "targets": targets.verdicts,
    "targets_throttle": throttle_targets.verdicts,
    "targets_sharding": sharding_targets.verdicts,
    "targets_outbox": outbox_targets.verdicts,
    "targets_groomer": groomer_targets.verdicts,
    "targets_observers": observers_targets.verdicts,
    "targets_stored": stored_targets.verdicts,
}
_BLOCK = re.compile(r"^% begin: (\w+)\n.*?^% end: \1$", re.DOTALL | re.MULTILINE)


def publish(results: Results) -> list[Path]:
    """Return the files that are up to date now."""
    drawn = charts.draw(results, PICTURES)
    kept = [row for row in tables.TABLES if results.samples(row)]
    for row in kept:
        shutil.copy(results.folder / f"{row}.json", PICTURES)
    for page in PAGES:
        page.write_text(
            _BLOCK.sub(lambda found: _block(found[1], results, drawn), page.read_text())
        )
    summary = results.folder / "summary.md"
    summary.write_text(_summary(results))
    return [
        *PAGES,
        summary,
        *(PICTURES / f"{name}.svg" for name in drawn),
        *(PICTURES / f"{row}.json" for row in kept),
    ]


def _block(name: str, results: Results, drawn: list[str]) -> str:
    return f"% begin: {name}\n\n{_inside(name, results, drawn)}\n\n% end: {name}"


def _inside(name: str, results: Results, drawn: list[str]) -> str:
    if name in TARGETS:
        found = TARGETS[name](results)
        return targets.table(found) if found else NOTHING
    row = charts.CHARTS[name][1] if name in charts.CHARTS else name
    samples = results.samples(row)
    if not samples:
        return NOTHING
    write = {"pace": loads.pace, "cost": loads.cost}.get(name)
    parts = [
        (write or tables.TABLES[row][1])(samples),
        tables.ran(results, row),
        f"More than the table has: {{download}}`{row}.json <{FROM_PAGE}/{row}.json>`.",
    ]
    if name in drawn:
        title = tables.TABLES[row][0]
        parts.insert(0, f"![{title}: chart]({FROM_PAGE}/{name}.svg)")
    return "\n\n".join(parts)


def _summary(results: Results) -> str:
    where = "docs/_static/benchmarks/pace.svg"
    parts = [
        f"![Messages sent each second, and how late]({where})",
        targets.table(targets.verdicts(results)),
    ]
    if results.samples("pace"):
        parts.append(tables.ran(results, "pace"))
    parts.append(
        "Measure it yourself: `make bench`. All figures and how they were taken:"
        " [docs/explanation/performance.md](docs/explanation/performance.md)."
    )
    return "\n\n".join(parts) + "\n"
