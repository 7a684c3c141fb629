"""The report of the customers: what each edit took, and how often the alarm rang."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from example_project.customers.play import Seen


def show(console: Console, seen: Seen) -> None:
    """Show the figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("customers' schedules", style="bold", min_width=22)
    table.add_column("edited in the service's own transactions, while all runs")
    table.add_row("added, every 1 s", f"first reminder {seen.added:.1f} s later")
    table.add_row("rolled back", f"{seen.left} rows and reminders of it")
    table.add_row("halved, every 0.5 s", f"two reminders {seen.changed:.1f} s later")
    table.add_row(
        "held by a transaction",
        f"alarm after {seen.rang:.1f} s, of which it must be silent for 1 s;"
        f" {seen.rings} call by two schedulers;"
        f" recovered {seen.recovered:.1f} s after the commit",
    )
    console.print()
    console.print(table)


def failures(seen: Seen) -> list[str]:
    """Return what should not have happened."""
    wrong = []
    if seen.left:
        wrong.append(f"customers: {seen.left} are left of what was rolled back")
    if seen.rings != 1:
        wrong.append(f"customers: the alarm rang {seen.rings} times")
    return wrong
