"""The last page: what became of the slots and the calls."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from celery_pecker.kernel.clock import from_us
from example_project.demo.chronicle import WORDS, Chronicle
from example_project.demo.report import SECOND, Cause, Event, Tally, cause_of
from example_project.demo.strip import LOST, MARKS, text
from example_project.demo.watch import Sight


def show(console: Console, told: Chronicle) -> None:
    """The report is on the screen."""
    account, events, sight = told.account, told.events, told.sight
    console.print()
    console.rule("timeline: who won each second", align="left")
    width = max(console.width - 10, 10)
    timeline = text(account, sight.runs, events, width=width)
    console.print(timeline, markup=False, highlight=False)
    console.print(_legend(events), style="dim", markup=False, highlight=False)
    console.print()
    console.print(_slots(account, events, sight.missed))
    console.print(_gaps(account))
    if told.pulse is not None:
        console.print(_pulse(told.pulse))
    console.print(_calls(sight, told.calls, told.drops_after))
    for failure in told.failures:
        console.print(f"FAILED: {failure}", style="bold red")


def _legend(events: Sequence[Event]) -> str:
    """Return what the letters mean that are there."""
    causes = dict.fromkeys(event.cause for event in events)
    said = [f"{MARKS[cause]} {cause}" for cause in causes]
    return "   ".join([f"A, B won the slot   {LOST} lost", *said])


def _slots(tally: Tally, events: Sequence[Event], missed: int) -> Table:
    table = _table("slots", "")
    table.add_row("due", str(len(tally.due)))
    table.add_row("fired", f"{len(tally.fired)} ({_wins(tally)})")
    table.add_row("lost", _named(tally.lost, events))
    if tally.lost:
        table.add_row("", f"pecker itself counted {missed} as missed")
    table.add_row("doubled", _named(tally.doubled, events))
    if tally.stray:
        table.add_row("off the grid", _named(tally.stray, events))
    return table


def _gaps(tally: Tally) -> Table:
    table = _table("greatest gap between two runs, by cause", "")
    for cause in Cause:
        if gap := tally.gaps.get(cause):
            table.add_row(WORDS[cause], f"{gap.seconds:.2f} s")
    return table


def _pulse(pulse: Tally) -> Table:
    table = _table("while the broker was stopped", "")
    fired, due = len(pulse.fired), len(pulse.due)
    worst = max((gap.seconds for gap in pulse.gaps.values()), default=0.0)
    table.add_row(
        "the local task",
        f"{fired} of {due} slots, {len(pulse.doubled)} doubled, greatest gap"
        f" {worst:.2f} s",
    )
    return table


def _calls(sight: Sight, calls: int, drops_after: float) -> Table:
    table = _table("calls", "")
    table.add_row("dropped", f"{len(sight.dropped)} of {calls}")
    table.add_row(
        "longest unasked",
        f"{sight.silence:.1f} s (the backend hangs up after {drops_after:g} s"
        " in this demo, 60 s in the service it is modelled on)",
    )
    table.add_row("checks", f"{sight.checks}, of which {sight.bad} found a fault")
    slowest = "-" if sight.slowest is None else f"{sight.slowest:.1f} s"
    table.add_row("slowest reaction", f"{slowest} from fault to notice")
    unnoticed = len(sight.reactions) - sight.noticed - sight.overlooked
    table.add_row(
        "faults",
        f"{len(sight.reactions)}: {sight.noticed} noticed, {sight.overlooked}"
        f" overlooked, {unnoticed} too young to tell",
    )
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True)
    table.add_column(heads[0], style="bold", min_width=22)
    table.add_column(heads[1])
    return table


def _wins(tally: Tally) -> str:
    return ", ".join(
        f"{name or 'winner unknown'} {many}"
        for name, many in sorted(tally.wins.items(), key=lambda win: win[0] or "~")
    )


def _named(slots: Sequence[int], events: Sequence[Event]) -> str:
    """Return how many, and when and during what each was due."""
    if not slots:
        return "0"
    during: dict[Cause, list[str]] = {}
    for slot in slots:
        when = f"{from_us(slot):%H:%M:%S}"
        during.setdefault(cause_of(events, slot, slot + SECOND), []).append(when)
    named = "; ".join(
        f"{WORDS[cause]}: due {' '.join(times)} UTC" for cause, times in during.items()
    )
    return f"{len(slots)} ({named})"
