"""The report of the billing: each call once, and what was done meanwhile."""

from __future__ import annotations

import signal

from rich.console import Console
from rich.table import Table

from example_project.billing.play import MORTAL, Seen


def show(console: Console, seen: Seen) -> None:
    """Show the figures."""
    last = seen.last
    if last is None:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{last.hung_up:,} calls ended", style="bold", min_width=22)
    table.add_column(
        f"{last.billed:,} billed, {last.lost} lost, {last.doubled} doubled"
    )
    table.add_row(
        "kill -9 after commit",
        f"{seen.callers.count(-signal.SIGKILL)} callers, in the line after it",
    )
    if seen.killed is not None:
        over = "never" if seen.taken_over is None else f"{seen.taken_over:.1f} s"
        table.add_row(
            "kill -9 push|delete",
            f"{seen.killed.messages} messages on the broker and in the table;"
            f" taken over after {over}, {last.repeated} run twice",
        )
    drained = "never" if seen.drained is None else f"{seen.drained:.1f} s"
    table.add_row(
        "broker away for 10 s",
        f"{seen.waited} waited in the table; all billed {drained} after its return"
        if seen.away
        else "not played: this Redis is somebody else's",
    )
    console.print()
    console.print(table)


def failures(seen: Seen) -> list[str]:
    """Return what should not have happened."""
    last = seen.last
    if last is None:
        return ["outbox: nothing was counted"]
    wrong = []
    if last.hung_up != seen.begun:
        wrong.append(f"outbox: {last.hung_up} of {seen.begun} calls were hung up")
    if last.lost:
        wrong.append(f"outbox: {last.lost} of {last.hung_up} calls were not billed")
    if last.doubled:
        wrong.append(f"outbox: {last.doubled} calls were billed twice")
    if last.repeated:
        wrong.append(f"outbox: {last.repeated} tasks ran twice")
    if seen.callers != [-signal.SIGKILL] * len(MORTAL):
        wrong.append(f"outbox: callers ended with {seen.callers}, not by SIGKILL")
    if seen.killed is None or seen.taken_over is None:
        wrong.append("outbox: no relay died between push and delete and was replaced")
    if seen.away and not seen.waited:
        wrong.append("outbox: nothing waited while the broker was away")
    return wrong
