"""Workers that are schedulers, and what they did."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.nodes import READY

SECOND = 1_000_000
ROOT = Path(__file__).parents[3]
APP = "tests.integration.worker.timed"
WITH_TIMEOUT = "sent too"
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
        self.conf: dict[str, Any] = {
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
            [sys.executable, "-m", "tests.lean", "-A", APP, *words, "-l", "INFO"],
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
        """Each slot ran once, but for so many and those that are counted as missed.

        A run may begin after those of later slots, so it is waited for. An entry with a
        timeout may have gaps: on a busy machine its run comes late and is refused.
        """
        until = {name: max(seconds) for name, seconds in self.slots.items()}
        whole = [name for name in names or until if name != WITH_TIMEOUT]

        def complete() -> bool:
            slots, missed = self.slots, self._missed()
            return all(
                len({one for one in slots[name] if one <= until[name]})
                >= until[name] + 1 - gaps - missed[name]
                for name in whole
            )

        self.until(complete, "each slot ran or is counted as missed")
        for name, seconds in self.slots.items():
            twice = [one for one, times in Counter(seconds).items() if times > 1]
            assert not twice, (name, seconds)

    def _missed(self) -> dict[str, int]:
        tasks = sql.Identifier(self.name, "pecker_tasks")
        with psycopg.connect(self.conf["pecker_dsn"]) as connection:
            return dict(
                connection.execute(
                    sql.SQL("select name, missed from {}").format(tasks)
                ).fetchall()
            )

    @property
    def alive(self) -> list[str]:
        """Which schedulers show life."""
        return sorted(path.name for path in (self.folder / "alive").glob("*"))
