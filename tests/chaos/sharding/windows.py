"""Moments at which a death is dangerous: processes pass them, and one is killed there.

A process passes a window after (or before) a labelled statement of the ledger, or as it
publishes. Nothing is taken out or changed by that: where no order lies, passing is a
look at a folder. An order is a file; whoever passes its window first takes it, writes
down who it is, and dies, with all processes of its worker or alone.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery.signals import after_task_publish, before_task_publish
from psycopg.rows import tuple_row

from celery_pecker.kernel.database import Database

AFTER = {
    "submit_job": "submitted, not sent",
    "begin_plan": "planning begun",
    "take_ticket": "ticket taken",
    "claim_shards": "shards claimed, not run",
    "write_steps": "cursor written, not looked at",
    "next_layer": "layer closed, nobody summoned",
    "finish_layers": "last layer closed, Post not sent",
    "tickets_to_publish": "tickets summoned, not sent",
    "begin_post": "Post begun",
    "end_expired_holds": "lapsed holds voided, nobody summoned",
    "send_again": "messages due, not sent",
    "begin_delivery": "telling begun",
}
"""Right after a statement, by its label."""
BEFORE = {
    "write_steps": "items run, not written",
    "end_delivery": "told, not written",
}
"""Right before one."""
COMMITTED = {
    "end_plan": "plan committed, nothing sent",
    "end_post": "Post's value stored, not told",
}
"""Right after the transaction of one."""
PUBLISHING = "message to be sent"
PUBLISHED = "message sent"
WORKERS = (
    *(name for name in AFTER.values() if name != "submitted, not sent"),
    *BEFORE.values(),
    *COMMITTED.values(),
    *(PUBLISHING, PUBLISHED),
)
SCHEDULERS = (
    AFTER["end_expired_holds"],
    AFTER["tickets_to_publish"],
    AFTER["send_again"],
    *(PUBLISHING, PUBLISHED),
)
CALLERS = (AFTER["submit_job"], PUBLISHING, PUBLISHED)
BY_ROLE = {"worker": WORKERS, "scheduler": SCHEDULERS, "caller": CALLERS}


def order_name(role: str, window: str) -> str:
    """Return the file's name of an order for the first of that role who passes."""
    return f"{role}@{window.replace(' ', '-').replace(',', '')}"


class Windows:
    """The windows of one process."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder = folder
        self._role = role
        self._local = threading.local()

    def open(self) -> None:
        """From now on the process passes its windows."""
        execute, transaction = Database._execute, Database.transaction
        windows = self

        def passing(
            self: Database,
            label: str,
            params: dict[str, object],
            row_factory: Any = tuple_row,
        ) -> tuple[Any, int]:
            if label in BEFORE:
                windows.passed(BEFORE[label])
            told = execute(self, label, params, row_factory)
            if getattr(windows._local, "depth", 0):
                windows._local.ran.add(label)
            if label in AFTER and (told[0] or told[1]):
                windows.passed(AFTER[label])
            return told

        @contextmanager
        def committing(self: Database, **given: Any) -> Iterator[None]:
            local = windows._local
            depth = local.depth = getattr(local, "depth", 0) + 1
            if depth == 1:
                local.ran = set()
            try:
                with transaction(self, **given):
                    yield
            finally:
                local.depth = depth - 1
            if depth == 1:
                for label in COMMITTED.keys() & local.ran:
                    windows.passed(COMMITTED[label])

        Database._execute = passing  # type: ignore[method-assign]
        Database.transaction = committing  # type: ignore[method-assign]
        before_task_publish.connect(self._publishing, weak=False)
        after_task_publish.connect(self._published, weak=False)

    def passed(self, window: str) -> None:
        """This process is dead, if it was ordered to die here."""
        name = order_name(self._role, window)
        mine = self._folder / f"taken-{name}-{os.getpid()}"
        with suppress(FileNotFoundError):
            os.rename(self._folder / name, mine)  # noqa: PTH104  # who is first
            whole = mine.read_text() == "whole"
            pid, group = os.getpid(), os.getpgrp()
            mine.write_text(f"{pid} {group if whole else 0}")
            mine.rename(self._folder / f"died-{name}-{pid}")
            if whole:
                os.killpg(group, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)

    def _publishing(self, **_: object) -> None:
        self.passed(PUBLISHING)

    def _published(self, **_: object) -> None:
        self.passed(PUBLISHED)
