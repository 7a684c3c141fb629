"""Bars that grow while an act is played; one for each name."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
)


class Bars:
    """Draws a bar for each name, in the order in which they are first drawn."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._drawn: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        """Draw from now on."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are."""
        self._progress.stop()

    def draw(self, name: str, done: int, total: int, note: str = "") -> None:
        """Draw the bar of this name: so many of so many."""
        if name not in self._drawn:
            self._drawn[name] = self._progress.add_task(name, total=total, note=note)
        self._progress.update(self._drawn[name], completed=done, total=total, note=note)
