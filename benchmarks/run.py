"""One run of the benchmarks: what is wanted, where, and who is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.plan import Plan
from benchmarks.results import Results, Sample
from benchmarks.servers import Servers

SAID = 500
"""What is kept of an error: its end."""


@dataclass(slots=True)
class Run:
    """Trials are run through this: kept, skipped when kept already, shown."""

    servers: Servers
    plan: Plan
    results: Results
    console: Console
    entries: frozenset[int] = frozenset()
    """Only these loads; all if empty."""
    only: frozenset[str] = frozenset()
    """Only trials with these labels; all if empty. The others' figures stay."""
    resume: bool = False
    """What is on disk with the same plan is not measured again."""
    failures: list[str] = field(default_factory=list)
    _fresh: set[str] = field(default_factory=set)
    _progress: Progress | None = None

    def trial(
        self,
        row: str,
        label: str,
        lasts: float,
        measure: Callable[[], Sample],
        **known: object,
    ) -> None:
        """The trial's figures are on disk, unless it failed, which is noted."""
        if self.only and label not in self.only:
            return
        if self.only and not self.resume:
            self._fresh.add(row)
            self.results.clear(row, **known)
        if self.resume and self.results.has(row, **known):
            self.note(f"{row}: {label}: kept")
            return
        if not self.resume and row not in self._fresh:
            self._fresh.add(row)
            for load in self.entries or (None,):
                which = {} if load is None or row != "pace" else {"entries": load}
                self.results.clear(row, **which)
        self.results.forgive(row, label)
        began = time.monotonic()
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        ) as self._progress:
            task = self._progress.add_task(f"{row}: {label}", total=lasts)
            self._tick = lambda: self._show(task, time.monotonic() - began)
            try:
                sample = measure()
            except Exception as error:  # noqa: BLE001 - others' code: the rest goes on
                said = f"{label}: {type(error).__name__}: {str(error)[-SAID:]}"
                self.failures.append(f"{row}: {said}")
                self.results.fail(row, self.servers.facts, said)
                self.note(f"[red]✗[/] {escape(f'{row}: {said}')}")
                return
            finally:
                self._tick = lambda: None
        busy = round(os.getloadavg()[0], 1)
        head = {**known, "plan": self.plan.name, "load": busy}
        self.results.add(row, self.servers.facts, {**head, **sample})
        self.note(f"[green]✓[/] {row}: {label}: {_gist(sample)}")

    def tell(self) -> None:
        """Time went by."""
        self._tick()

    def note(self, text: str) -> None:
        """The reader is told."""
        self.console.print(text, highlight=False)

    _tick: Callable[[], None] = field(default=lambda: None)

    def _show(self, task: object, spent: float) -> None:
        if self._progress is not None:
            self._progress.update(task, completed=spent)  # type: ignore[arg-type]


def _gist(sample: Sample) -> str:
    shown = []
    for key, value in sample.items():
        if isinstance(value, dict) and "p99" in value:
            shown.append(f"{key} {value['p50']:g}/{value['p95']:g}/{value['p99']:g}")
        elif isinstance(value, float | int) and not isinstance(value, bool):
            shown.append(f"{key} {value:g}")
    return ", ".join(shown[:7])
