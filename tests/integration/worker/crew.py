"""Workers that are schedulers, and what they did."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery_pecker.migrations import migrate
from celery_pecker.testing import eventually
from celery_pecker.testing.cluster import READY
from celery_pecker.testing.processes import ProcessContainer

SECOND = 1_000_000
ROOT = Path(__file__).parents[3]
APP = "tests.integration.worker.timed"
QUICK = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Crew:
    """Processes of one app, on one schema and one queue of their own."""

    def __init__(
        self, folder: Path, *, dsn: str, broker: str, name: str, **conf: object
    ) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.name = name
        migrate(dsn, schema=name)
        self.conf = {
            "pecker_dsn": dsn,
            "pecker_schema": name,
            "pecker_heartbeat_dir": str(self.folder / "alive"),
            "task_default_queue": f"timed-{name}",
            **conf,
        }
        self._broker = broker
        self.all: list[ProcessContainer] = []

    def worker(
        self, pool: str, *options: str, wait: bool = True, **conf: object
    ) -> ProcessContainer:
        """Start a worker."""
        name = f"{self.name}-{len(self.all)}"
        command = ["worker", "-P", pool, "-c", "2", "-n", f"{name}@here", *QUICK]
        return self._start([*command, *options], name, wait, conf)

    def beat(self, *, wait: bool = True) -> ProcessContainer:
        """Start a scheduler without a worker."""
        return self._start(["beat", "-S", "pecker", "--pidfile="], "beat", wait, {})

    def _start(
        self, words: list[str], name: str, wait: bool, conf: dict[str, object]
    ) -> ProcessContainer:
        process = ProcessContainer(
            [sys.executable, "-m", "celery", "-A", APP, *words, "-l", "INFO"],
            name=name,
            cwd=ROOT,
            env={
                "PECKER_TEST_FOLDER": str(self.folder),
                "PECKER_TEST_BROKER": self._broker,
                "PECKER_TEST_CONF": json.dumps({**self.conf, **conf}),
            },
        )
        self.all.append(process)
        process.start()
        if wait:
            self.until(lambda: READY in process.life_log(), f"{name} is ready")
        return process

    def close(self) -> None:
        """Leave nothing running."""
        for process in self.all:
            process.remove()

    def until(self, condition: Any, said: str, timeout: float = 30.0) -> None:
        """Wait until it came true, or fail with the logs."""
        try:
            eventually(condition, timeout, said)
        except AssertionError as error:
            error.add_note(f"{self.slots}")
            for process in self.all:
                error.add_note(f"{process.name}:\n{process.life_log()[-3000:]}")
            raise

    @property
    def slots(self) -> dict[str, list[float]]:
        """What ran, in order: by entry, the seconds from its first slot on."""
        found: dict[str, list[int]] = {}
        with suppress(FileNotFoundError):
            for line in (self.folder / "journal").read_text().splitlines():
                name, due_us, _ = json.loads(line)
                found.setdefault(name, []).append(due_us)
        return {
            name: [round((one - min(dues)) / SECOND, 3) for one in dues]
            for name, dues in found.items()
        }

    def ran(self, count: int, *names: str) -> bool:
        """Whether each of these entries ran so often."""
        slots = self.slots
        return all(len(slots.get(name, ())) >= count for name in names)

    def see_each_once(self, *names: str, gaps: int = 0) -> None:
        """Each slot ran once, from the first to the last, but for so many."""
        slots = self.slots
        for name in names or slots:
            seconds = slots[name]
            twice = [one for one, times in Counter(seconds).items() if times > 1]
            assert not twice, (name, seconds)
            assert len(seconds) >= max(seconds) + 1 - gaps, (name, seconds)

    @property
    def alive(self) -> list[str]:
        """Which schedulers show life."""
        return sorted(path.name for path in (self.folder / "alive").glob("*"))
