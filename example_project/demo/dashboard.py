"""The live screen: one column a second, one row a scheduler."""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from example_project.demo.report import SECOND, Event, Run
from example_project.demo.scene import Line, Scene
from example_project.demo.strip import LOST, MARKS
from example_project.demo.watch import Sight

COLOURS = {"A": "bright_blue", "B": "orange1"}
STATES = {
    "starting": "yellow",
    "running": "green",
    "killed": "bold red",
    "frozen": "bold cyan",
}
LABEL = 24
"""Columns to the left of the seconds."""
SAID = 7
"""Lines of what was said."""
LATE_US = SECOND * 6 // 10
"""A slot younger than this may yet be fired."""


class Dashboard:
    """Renders the scene eight times a second."""

    def __init__(self, scene: Scene, console: Console) -> None:
        self._scene = scene
        self._console = console
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=8,
            transient=True,
        )

    def __enter__(self) -> Self:
        """It is on the screen."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        """It has left the screen to the report."""
        self._live.stop()

    def render(self) -> RenderableType:
        """Return the scene as it is now."""
        scene = self._scene
        title = Text.assemble(
            ("celery-pecker", "bold"),
            "  a task each second, whatever dies",
            (f"  {scene.elapsed:5.1f} s", "dim"),
        )
        return Group(
            title,
            Panel(self._heartbeat(), title="heartbeat", title_align="left"),
            Panel(self._calls(scene.sight), title="calls", title_align="left"),
            Panel(self._said(scene.lines), title="story", title_align="left"),
        )

    def _heartbeat(self) -> RenderableType:
        scene = self._scene
        if scene.timeline is None or scene.watch is None:
            return Text("the stage is being built\n\n\n", style="dim")
        width = max(self._console.width - LABEL - 6, 10)
        columns = _columns(scene.timeline.now_us(), width)
        table = Table.grid(padding=(0, 1))
        table.add_column(width=LABEL)
        table.add_column(no_wrap=True)
        for scheduler in scene.schedulers:
            label = Text.assemble(
                (f"{scheduler.name} ", f"bold {COLOURS[scheduler.name]}"),
                (f"{scheduler.state:<9}", STATES[scheduler.state]),
                (f"pid {scheduler.pid}", "dim"),
            )
            table.add_row(label, _lane(scheduler.name, scene.sight.runs, columns))
        table.add_row(
            Text(f"lost {LOST}  doubled 2", style="dim"), self._faults(columns)
        )
        legend = "k kill  f freeze  r restart"[:LABEL]
        table.add_row(Text(legend, style="dim"), _events(scene.events, columns))
        return table

    def _faults(self, columns: list[int]) -> Text:
        """Return a mark where a slot has no run, or more than one."""
        scene, line = self._scene, Text()
        runs = scene.sight.runs
        if not runs or scene.timeline is None:
            return line
        settled = scene.timeline.now_us() - LATE_US - SECOND // 2
        for column in columns:
            many = sum(column <= run.due_us < column + SECOND for run in runs)
            hidden = column < runs[0].due_us or column + SECOND > settled
            awaited = hidden or not scene.sight.reachable
            mark = " " if many == 1 or (awaited and not many) else str(many or LOST)
            line.append(mark, style="bold red")
        return line

    def _calls(self, sight: Sight) -> RenderableType:
        scene = self._scene
        slowest = "-" if sight.slowest is None else f"{sight.slowest:.1f} s"
        dropped = "bold red" if sight.dropped else "green"
        away = "" if sight.reachable or not sight.runs else "PostgreSQL is away"
        table = Table.grid(padding=(0, 3))
        table.add_row(
            Text(f"{sight.live} live of {scene.calls}"),
            Text(f"{sight.checks} checks"),
            Text(f"longest unasked {sight.silence:.1f} s of {scene.drops_after:g} s"),
            Text(f"dropped {len(sight.dropped)}", style=dropped),
        )
        table.add_row(
            Text(f"{len(sight.reactions)} faults"),
            Text(f"{sight.noticed} noticed"),
            Text(f"slowest reaction {slowest}"),
            Text(f"misses {sight.missed}", style="red" if sight.missed else ""),
        )
        return Group(table, Text(away, style="bold red"))

    def _said(self, lines: list[Line]) -> RenderableType:
        said = [
            Text.assemble((f"{line.at:5.1f} s  ", "dim"), line.text)
            for line in lines[-SAID:]
        ]
        return Group(*said, *[Text("")] * (SAID - len(said)))


def _columns(now_us: int, width: int) -> list[int]:
    """Return the second at which each column begins; the last one is now."""
    last = now_us // SECOND
    return [second * SECOND for second in range(last - width + 1, last + 1)]


def _lane(name: str, runs: tuple[Run, ...], columns: list[int]) -> Text:
    """Return a block for each second in which the scheduler won a slot."""
    won = {run.due_us // SECOND for run in runs if run.winner == name}
    line = Text()
    for column in columns:
        mine = column // SECOND in won
        line.append("█" if mine else "·", style=COLOURS[name] if mine else "dim")
    return line


def _events(events: list[Event], columns: list[int]) -> Text:
    """Return a letter for each second in which something was done to somebody."""
    line = Text()
    for column in columns:
        during = [
            MARKS[event.cause]
            for event in events
            if event.began_us < column + SECOND and column < event.ended_us
        ]
        line.append(during[-1] if during else " ", style="bold magenta")
    return line
