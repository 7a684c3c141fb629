"""The rows of the live screen, a column a second: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from example_project.demo.report import SECOND, Cause, Event, Run, Tally
from example_project.demo.strip import LOST, MARKS

COLOURS = {"A": "bright_blue", "B": "orange1"}
STYLES = {
    Cause.KILL: "bold red",
    Cause.FREEZE: "bold cyan",
    Cause.RESTART: "bold magenta",
    Cause.CUT: "bold magenta",
    Cause.BROKER: "bold yellow",
}
WON = "\N{FULL BLOCK}"
NOT_WON = "\N{MIDDLE DOT}"
EVERY = 10
"""Seconds between two figures of the axis."""


def columns(began_us: int, now_us: int, width: int) -> list[int]:
    """Return the instants at which the columns begin; now is among them."""
    passed = max(now_us - began_us, 0) // SECOND
    first = max(0, passed - width + 1)
    return [began_us + second * SECOND for second in range(first, first + width)]


def won(name: str, runs: Iterable[Run], seconds: Sequence[int], now_us: int) -> Text:
    """Return a block for each second in which the scheduler won a slot."""
    mine = _by_column((run.due_us for run in runs if run.winner == name), seconds)
    line = Text()
    for second in seconds:
        if mine[second]:
            line.append(WON, style=COLOURS[name])
        else:
            line.append(NOT_WON if second < now_us else " ", style="dim")
    return line


def faults(account: Tally, seconds: Sequence[int]) -> Text:
    """Return a mark for each second whose slot was lost or ran more than once."""
    lost = _by_column(account.lost, seconds)
    doubled = _by_column(account.doubled, seconds)
    marks = (LOST if lost[s] else "2" if doubled[s] else " " for s in seconds)
    return Text("".join(marks), style="bold red")


def events(done: Iterable[Event], seconds: Sequence[int]) -> Text:
    """Return a letter for each second in which something was done to somebody."""
    line = Text(" " * len(seconds))
    for event in done:
        for place, second in enumerate(seconds):
            if event.began_us < second + SECOND and second < event.ended_us:
                line.plain = (
                    line.plain[:place] + MARKS[event.cause] + line.plain[place + 1 :]
                )
                line.stylize(STYLES[event.cause], place, place + 1)
    return line


def axis(seconds: Sequence[int], began_us: int) -> Text:
    """Return the seconds since the beginning, written every ten."""
    line = ""
    for place, second in enumerate(seconds):
        since = (second - began_us) // SECOND
        if since % EVERY == 0 and len(line) <= place:
            line = line.ljust(place) + str(since)
    return Text(line[: len(seconds)], style="dim")


def _by_column(instants: Iterable[int], seconds: Sequence[int]) -> Counter[int]:
    """Return how many of the instants fall into each column."""
    if not seconds:
        return Counter()
    first = seconds[0]
    return Counter(first + (instant - first) // SECOND * SECOND for instant in instants)
