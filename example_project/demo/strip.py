"""The timeline as text: one letter a slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from example_project.demo.report import SECOND, Cause, Event, Run, Tally

LOST = "\N{MULTIPLICATION SIGN}"
UNKNOWN = "\N{BULLET}"
MARKS = {
    Cause.KILL: "k",
    Cause.FREEZE: "f",
    Cause.RESTART: "r",
    Cause.CUT: "c",
    Cause.BROKER: "b",
}


def letters(tally: Tally, runs: Iterable[Run]) -> str:
    """Return a letter for each slot that was due: its winner, a cross, or a count."""
    winners: dict[int, list[str]] = {}
    for run in runs:
        winners.setdefault(run.due_us, []).append(run.winner or UNKNOWN)
    return "".join(_letter(winners.get(slot, [])) for slot in tally.due)


def marks(tally: Tally, events: Sequence[Event]) -> str:
    """Return, beneath each slot, a letter for what was being done meanwhile."""
    line = ""
    for slot in tally.due:
        during = [
            MARKS[event.cause]
            for event in events
            if event.began_us < slot + SECOND and slot < event.ended_us
        ]
        line += during[-1] if during else " "
    return line


def text(
    tally: Tally, runs: Iterable[Run], events: Sequence[Event], width: int = 60
) -> str:
    """Return the timeline in rows of so many slots, each with its second and marks."""
    fired, done = letters(tally, runs), marks(tally, events)
    rows = []
    for start in range(0, len(fired), width):
        rows.append(f"{start:4d} s  {fired[start : start + width]}")
        if beneath := done[start : start + width].rstrip():
            rows.append(f"        {beneath}")
    return "\n".join(rows)


def _letter(winners: Sequence[str]) -> str:
    if not winners:
        return LOST
    if len(winners) > 1:
        return str(min(len(winners), 9))
    return winners[0][:1]
