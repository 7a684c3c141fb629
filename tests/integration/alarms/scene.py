"""Processes of an app in trouble, and what rings there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.nodes import READY

ROOT = Path(__file__).parents[3]
WITHIN = 90.0


class Scene:
    """Processes of one app on one database, and what rings there."""

    def __init__(self, app: ModuleType, conf: dict[str, Any]) -> None:
        self._app = app
        self.conf = conf
        self.queue = str(conf["task_default_queue"])
        """Named in each call: this process had its app before the settings."""
        self.all: list[ProcessContainer] = []
        self.rows = psycopg.connect(conf["pecker_dsn"], autocommit=True)

    def worker(self, queue: str) -> ProcessContainer:
        """Start a worker of a queue."""
        options = ("-P", "threads", "-c", "8", "-Q", queue, "-n", f"{queue}@{{id}}")
        return self.start(queue, "worker", *options, "-l", "INFO")

    def start(self, name: str, *words: str) -> ProcessContainer:
        """Start a command of the app."""
        app = ("-m", "tests.lean", "-A", self._app.__name__)
        process = ProcessContainer(
            [sys.executable, *app, *words],
            name=name,
            cwd=ROOT,
            env={self._app.CONF: json.dumps(self.conf)},
        )
        self.all.append(process)
        process.start()
        return process

    @staticmethod
    def ready(process: ProcessContainer, words: str = READY) -> None:
        """Wait until a process is ready."""
        eventually(
            lambda: words in process.life_log() or process.exit_code is not None,
            WITHIN,
            f"{process.name} is ready",
        )
        assert process.exit_code is None, process.life_log()

    def close(self) -> None:
        """Leave nothing running."""
        for one in self.all:
            one.remove()
        self.rows.close()

    def told(self, rule: str, event: str = "ringing") -> list[str]:
        """Return the lines of notices of a rule."""
        words = f"pecker: alarm {event}: {rule}: "
        logs = "\n".join(one.life_log() for one in self.all)
        return [line for line in logs.splitlines() if words in line]

    def until(self, rule: str, *words: str, event: str = "ringing") -> None:
        """Wait until a notice of a rule has said all of these words."""
        try:
            eventually(
                lambda: any(
                    all(word in line for word in words)
                    for line in self.told(rule, event)
                ),
                WITHIN,
                f"{rule}: {words}",
            )
        except AssertionError as error:
            for table in ("pecker_alarms", "pecker_tickets", "pecker_shards"):
                found = self.rows.execute(f"table {table}").fetchall()
                error.add_note(f"{table}: {found}")
            for one in self.all:
                error.add_note(f"{one.name}:\n{one.life_log()[-3000:]}")
            raise
