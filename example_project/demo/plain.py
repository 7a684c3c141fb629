"""The screen where there is no terminal: a line when something happens, or each 5 s."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console

from example_project.demo.scene import Line, Scene

EVERY = 5.0


class Plain:
    """Prints lines."""

    def __init__(self, scene: Scene, console: Console) -> None:
        self._scene = scene
        self._console = console
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="plain")

    def __enter__(self) -> Self:
        """Lines are printed as they come."""
        self._scene.listener = self._print
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing more is printed."""
        self._scene.listener = None
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            if self._scene.watch is not None:
                self._print(Line(at=self._scene.elapsed, text=self._state()))

    def _state(self) -> str:
        scene, sight = self._scene, self._scene.sight
        wins = ", ".join(
            f"{each.name} {sum(run.winner == each.name for run in sight.runs)}"
            for each in scene.schedulers
        )
        slowest = "none yet" if sight.slowest is None else f"{sight.slowest:.1f} s"
        return (
            f"  slots fired {len(sight.runs)} (won by {wins}), checks {sight.checks},"
            f" calls live {sight.live}, dropped {len(sight.dropped)},"
            f" slowest reaction {slowest}, misses {sight.missed}"
        )

    def _print(self, line: Line) -> None:
        self._console.print(
            f"{line.at:5.1f} s  {line.text}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
