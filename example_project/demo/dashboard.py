"""The live screen: one column a second, one row a scheduler."""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from example_project.demo import lanes
from example_project.demo.chronicle import WORDS
from example_project.demo.report import SECOND, Cause, Tally, tally
from example_project.demo.scene import Line, Scene
from example_project.demo.stage import Scheduler
from example_project.demo.strip import LOST
from example_project.demo.watch import Sight

STATES = {
    "starting": "yellow",
    "running": "green",
    "killed": "bold red",
    "frozen": "bold cyan",
}
LABEL = 25
"""Columns to the left of the seconds."""
SAID = 7
"""Lines of what was said."""
SETTLES_US = SECOND * 12 // 10
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
            (f"  {scene.elapsed:.1f} s  ", "dim"),
            _doing(scene),
            no_wrap=True,
        )
        panels = (
            ("heartbeat", self._heartbeat()),
            ("calls", _calls(scene)),
            ("story", _said(scene.lines)),
        )
        return Group(
            title,
            *(Panel(shown, title=name, title_align="left") for name, shown in panels),
        )

    def _heartbeat(self) -> RenderableType:
        scene, sight = self._scene, self._scene.sight
        if scene.timeline is None or not scene.schedulers:
            return Text("the stage is being built" + "\n" * 5, style="dim")
        width = max(self._console.width - LABEL - 6, 10)
        now_us, began_us = scene.timeline.now_us(), scene.timeline.began_us
        if not scene.timeline.begun:
            began_us = now_us
        columns = lanes.columns(began_us, now_us, width)
        account = tally(
            sight.runs,
            scene.events,
            since_us=began_us,
            until_us=max(now_us - SETTLES_US, began_us),
        )
        table = Table.grid(padding=(0, 1))
        table.add_column(width=LABEL, no_wrap=True)
        table.add_column(no_wrap=True)
        for scheduler in scene.schedulers:
            won = lanes.won(scheduler.name, sight.runs, columns, now_us)
            table.add_row(_state(scheduler), won)
        marks = Text(f"{LOST} lost  2 doubled", style="dim")
        table.add_row(marks, lanes.faults(account, columns))
        marks = Text("k kill f freeze r restart", style="dim")
        table.add_row(marks, lanes.events(scene.events, columns))
        table.add_row(Text("seconds", style="dim"), lanes.axis(columns, began_us))
        return Group(table, _figures(account))


def _doing(scene: Scene) -> Text:
    """Return what is being done to whom at this moment."""
    event = scene.timeline.doing_now if scene.timeline else None
    if event is None:
        return Text("")
    said = {
        Cause.KILL: f" scheduler {event.subject} is dead ",
        Cause.FREEZE: f" scheduler {event.subject} is frozen ",
        Cause.RESTART: " PostgreSQL restarts ",
        Cause.CUT: " PostgreSQL connections are cut ",
        Cause.BROKER: " the broker is stopped: the local task goes on ",
    }
    return Text(said.get(event.cause, ""), style="bold reverse")


def _state(scheduler: Scheduler) -> Text:
    return Text.assemble(
        (f"{scheduler.name} ", f"bold {lanes.COLOURS[scheduler.name]}"),
        (f"{scheduler.state:<9}", STATES[scheduler.state]),
        (f"pid {scheduler.pid}" if scheduler.pids else "", "dim"),
    )


def _figures(account: Tally) -> Text:
    worst = max(account.gaps, key=lambda cause: account.gaps[cause].seconds)
    gap = f"{account.gaps[worst].seconds:.2f} s ({WORDS[worst]})"
    return Text.assemble(
        f"fired {len(account.fired)} of {len(account.due)}   ",
        (f"lost {len(account.lost)}   ", "bold red" if account.lost else ""),
        (f"doubled {len(account.doubled)}   ", "bold red" if account.doubled else ""),
        f"gap {gap if account.fired else '-'}",
        no_wrap=True,
    )


def _calls(scene: Scene) -> RenderableType:
    sight: Sight = scene.sight
    slowest = "-" if sight.slowest is None else f"{sight.slowest:.1f} s"
    dropped = "bold red" if sight.dropped else "green"
    away = sight.runs and not sight.reachable
    table = Table.grid(padding=(0, 3))
    table.add_row(
        f"{sight.live} live of {scene.calls}",
        f"{sight.checks} checks",
        f"longest unasked {sight.silence:.1f} s of {scene.drops_after:g} s",
        Text(f"dropped {len(sight.dropped)}", style=dropped),
    )
    table.add_row(
        f"{len(sight.reactions)} faults",
        f"{sight.noticed} noticed",
        f"slowest reaction {slowest}",
        Text.assemble(
            (f"misses {sight.missed}", "bold red" if sight.missed else ""),
            ("  PostgreSQL is away" if away else "", "bold red"),
        ),
    )
    return table


def _said(lines: list[Line]) -> RenderableType:
    said = [
        Text.assemble((f"{line.at:5.1f} s  ", "dim"), line.text)
        for line in lines[-SAID:]
    ]
    return Group(*said, *[Text("")] * (SAID - len(said)))
