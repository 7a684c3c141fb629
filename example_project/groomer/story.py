"""The report of the groomer: calls that were split, for how long, and who was asked."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from example_project.groomer.hosts import DRAINED, KILLED
from example_project.groomer.lives import Watched, longest
from example_project.groomer.play import FREEZE, SERVERS, Seen

PROMISED = 5.0
"""Seconds that a split lasts at most, at the 99th percentile."""
FAILED = 15.0
"""Seconds above which it fails the demo: less may be a machine that is busy."""


def show(console: Console, seen: Seen) -> None:
    """Show the figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{seen.calls} calls, {seen.peers} peers", style="bold")
    table.add_column(f"one of three media servers frozen for {FREEZE:g} s")
    lengths = (
        f"p50 {seen.percentile(0.5):.1f} s, p99 {seen.percentile(0.99):.1f} s"
        f" of {PROMISED:g} s"
        if seen.splits
        else "none"
    )
    table.add_row("calls moved", f"{seen.switched}, to the other servers")
    table.add_row("splits", f"{len(seen.splits)}; {lengths}; open: {seen.still_split}")
    table.add_row(
        "invitations",
        f"{seen.invited}, one for each peer and session; twice: {seen.twice}; of these"
        f" {seen.swept} by the sweep",
    )
    table.add_row(
        "pulled back",
        f"{seen.pulled} peers, by {seen.refused + seen.pulled} offers of the server"
        " that woke up",
    )
    table.add_row(
        "reports",
        f"{seen.reports:,}, lost, doubled and reordered; {seen.unbelieved} lies",
    )
    table.add_row("observers", _observers(seen.watched))
    for what, name in ((KILLED, "host killed"), (DRAINED, "host drained")):
        gaps = seen.watched.gaps(what)
        table.add_row(
            name,
            f"observers that moved: {len(gaps)}; longest gap {longest(gaps):.1f} s",
        )
    console.print()
    console.print(table)


def _observers(watched: Watched) -> str:
    others = watched.gaps("")
    moved = f"; moved beside: {len(others)}, {longest(others):.1f} s" if others else ""
    return (
        f"{len({life.server for life in watched.lives})} of {SERVERS} media servers are"
        f" watched by one each; two lives at once: {watched.overlaps}{moved}"
    )


def failures(seen: Seen) -> list[str]:
    """Return what should not have happened."""
    wrong = []
    if not seen.switched or not seen.splits:
        wrong.append("groomer: no call was moved from the frozen server")
    elif seen.percentile(0.99) > FAILED:
        wrong.append(
            f"groomer: a split lasted {seen.percentile(0.99):.1f} s (p99), and"
            f" {PROMISED:g} are promised"
        )
    if seen.still_split:
        wrong.append(f"groomer: {seen.still_split} calls are split at the end")
    if seen.out:
        wrong.append(f"groomer: {seen.out} peers are in no session")
    if seen.orphans or seen.unsent:
        wrong.append(
            f"groomer: {seen.orphans} peers are not invited, and {seen.unsent}"
            " invitations were not sent"
        )
    if seen.twice:
        wrong.append(f"groomer: {seen.twice} peers were invited twice")
    if seen.pulled:
        wrong.append(f"groomer: {seen.pulled} peers were pulled back")
    if seen.watched.unwatched:
        wrong.append(
            f"groomer: {seen.watched.unwatched} media servers have no observer that"
            " runs at the end"
        )
    if seen.watched.overlaps:
        wrong.append(
            f"groomer: {seen.watched.overlaps} observers wrote after the next life of"
            " theirs had begun"
        )
    return wrong
