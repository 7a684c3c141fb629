"""The two acts, one after the other, and what the report says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from example_project.rush.play import Act, Place, play


def both(place: Place, tell: Callable[[str], None]) -> tuple[Act, Act]:
    """Return the rush hour without the gate, and with it."""
    tell("rush hour, first act: the gate only counts (throttle_shadow)")
    without = play(place, gate=False, tell=tell)
    tell("rush hour, second act: the gate holds what is too much")
    return without, play(place, gate=True, tell=tell)


def show(console: Console, acts: Sequence[Act]) -> None:
    """The figures of both are on the screen."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{acts[0].told:,} reminders at once", style="bold", min_width=22)
    for act in acts:
        table.add_column("with the gate" if act.gate else "without")
    limit = acts[0].limit
    table.add_row(
        f"peak, statements/s (limit {limit:,.0f})", *(f"{a.peak:,.0f}" for a in acts)
    )
    table.add_row("connections at work", *(f"at most {a.busiest}" for a in acts))
    table.add_row("front page, p95", *(f"{a.front_page * 1e3:.1f} ms" for a in acts))
    table.add_row("held at once", *(_held(act) for act in acts))
    table.add_row("all told after", *(f"{act.lasted:.1f} s" for act in acts))
    table.add_row("told twice", *(str(act.twice) for act in acts))
    console.print()
    console.print(table)


def _held(act: Act) -> str:
    return f"{max((one.held for one in act.sights), default=0):,}"


def failures(acts: Sequence[Act], meetings: int) -> list[str]:
    """Return what should not have happened."""
    found = [
        f"rush hour: {len(act.missing)} of {meetings} meetings were not told:"
        f" {', '.join(map(str, act.missing))}"
        for act in acts
        if act.missing
    ]
    found += [
        f"rush hour: {act.twice} reminders ran twice" for act in acts if act.twice
    ]
    return found
