"""The report of the import: what stands in the tables, and what does not, and why."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from example_project.airports.play import Import
from example_project.airports.records import LAYERS, records

MOST = 8
"""Bad rows that are shown."""


def show(console: Console, seen: Import) -> None:
    """The figures and the bad rows are on the screen."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{seen.total:,} rows", style="bold", min_width=22)
    table.add_column("imported")
    for name, count in zip(LAYERS, seen.rows, strict=True):
        table.add_row(name, f"{count:,}")
    table.add_row("refused", f"{seen.failed:,}")
    table.add_row("took", f"{seen.lasted:.1f} s")
    if seen.killed_at is not None:
        table.add_row(
            f"kill -9 at {seen.killed_at:.0%}", f"went on after {seen.gap:.1f} s"
        )
    console.print()
    console.print(table)
    for reason, count in seen.told.get("why", {}).items():
        console.print(f"{count:>6} refused: {reason}", highlight=False, soft_wrap=True)
    for row in seen.told.get("rows", [])[:MOST]:
        said = f"       {row['key']}: {row['why']}"
        console.print(said, highlight=False, soft_wrap=True)


def failures(seen: Import) -> list[str]:
    """Return what should not have happened."""
    found = []
    wanted = sum(1 for _ in records())
    if seen.total != wanted or seen.done + seen.failed != wanted:
        found.append(
            f"airports: {seen.done} done and {seen.failed} refused of {wanted} rows"
        )
    if sum(seen.rows) != seen.done:
        found.append(f"airports: {sum(seen.rows)} rows stand, {seen.done} were done")
    if sum(seen.told.get("why", {}).values()) != seen.failed:
        found.append(f"airports: not every one of {seen.failed} bad rows is reported")
    if seen.killed_at is None:
        found.append("airports: no worker was killed")
    return found
