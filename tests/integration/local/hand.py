"""A runner that a test hands slots to, and what it told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.figures import Spent
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.local import LocalRunner
from celery_pecker.testing import eventually


class Notes:
    """A history that a test reads."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Report]] = []
        self.at_us: list[int] = []

    def note(  # noqa: PLR0913, PLR0917  # the parts of a report
        self,
        name: str,
        due_us: int,
        era: int,
        epoch: int,
        at_us: int,
        report: Report,
        error: str = "",
        spent: Spent | None = None,
    ) -> None:
        """Take it down."""
        del due_us, era, epoch, error, spent
        self.reports.append((name, report))
        self.at_us.append(at_us)

    def allow(self, until: float) -> None:
        """Nothing is written."""


class Hand:
    """One runner, its notes, and slots with or without a deadline."""

    def __init__(self, app: Celery, *, threads: int = 2, **given: Any) -> None:
        self.app = app
        self.notes = Notes()
        self.runner = LocalRunner(
            app,
            now_us=lambda: to_us(SYSTEM.now()),
            hostname="hand@test",
            threads=threads,
            recorder=self.notes,
            **given,
        )
        self.told: list[tuple[str, dict[str, Any]]] = []
        if "wanted" not in given:
            self.runner.events.send = self._tell  # type: ignore[method-assign]

    def _tell(self, kind: str, task: Any, **fields: Any) -> None:
        del task
        self.told.append((kind, fields))

    def prepare(self, task: Any, name: str | None = None, **given: Any) -> str:
        """The task has an entry; return its name."""
        entry = ScheduleEntry(
            name=name or task.name,
            task=task.name,
            schedule=schedule(1.0),
            app=self.app,
            **given,
        )
        self.runner.prepare(entry)
        return str(entry.name)

    def slot(self, name: str, *, left: float | None = 5.0) -> Dispatch:
        """Return a slot that is due now, with so many seconds to its deadline."""
        now, moment = SYSTEM.now(), SYSTEM.monotonic()
        deadline = None if left is None else now + timedelta(seconds=left)
        ends = None if left is None else moment + left
        return Dispatch(
            name=name,
            task_id=task_id("public", name, to_us(now), 0),
            header={
                "name": name,
                "due_at": now.isoformat(timespec="microseconds"),
                "era": 0,
                "epoch": 7,
                "deadline": deadline and deadline.isoformat(timespec="microseconds"),
            },
            ends=ends,
            latest=ends,
        )

    def run(self, *names: str, left: float | None = 5.0) -> None:
        """A slot of each is handed over."""
        batch = [self.slot(name, left=left) for name in names]
        self.runner.publish(batch, "token", within=60.0)

    def ended(self) -> list[tuple[str, Report]]:
        """Return the reports, once nothing runs and nothing waits."""
        eventually(self._idle, 30.0, "all runs have ended")
        return self.notes.reports

    def _idle(self) -> bool:
        if self.runner.held([*self.runner._ready]):
            return False
        return not self.counted.get("running")  # a thread lets go of its slot first

    @property
    def counted(self) -> dict[str, int]:
        """Return the counts that are not zero."""
        stats = Counter(self.runner.stats())
        return {key: count for key, count in stats.items() if count}

    @property
    def kinds(self) -> list[str]:
        """Which events were told."""
        return [kind for kind, _ in self.told]


class Gates:
    """Tasks wait here until a test lets them go."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.go = threading.Event()

    def wait(self) -> None:
        """The test knows that somebody is here."""
        self.inside.release()
        assert self.go.wait(30.0)

    def arrived(self) -> None:
        """Somebody is here."""
        assert self.inside.acquire(timeout=30.0)


Make = Callable[..., Hand]
