"""Who runs shards here: the worker, its pool, and whether it is about to stop."""

from __future__ import annotations

import mmap
import os
import socket
from typing import Any
from weakref import WeakKeyDictionary

from celery_pecker.clock import new_tag

ON = b"\1"


class Executor:
    """A worker, as its processes and threads see it."""

    def __init__(self, hostname: str, pool: str = "") -> None:
        """Made before the pool forks: its children share the page."""
        self.hostname = hostname
        self.pool = pool
        """Celery's word for it: how code is interrupted."""
        self._stopping = mmap.mmap(-1, 1)
        self._life = (0, "")

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: no further item is begun."""
        return self._stopping[:1] == ON

    def stop(self) -> None:
        """All processes of the worker know that it is about to stop."""
        self._stopping[:1] = ON

    @property
    def holder(self) -> str:
        """The name of this process life: nobody else has it, after a fork neither."""
        process, name = self._life
        if process != os.getpid():
            process = os.getpid()
            name = f"{self.prefix(process)}{new_tag()}"
            self._life = (process, name)
        return name

    def prefix(self, process: int) -> str:
        """Return how the names of that process of this worker begin."""
        return f"{self.hostname}:{process}:"


def enlist(app: Any, hostname: str, pool: str) -> Executor:
    """Return the executor that this process, and its children, are from now on."""
    executor = _executors[app] = Executor(hostname, pool)
    return executor


def executor_of(app: Any) -> Executor:
    """Return the executor of an app; outside of workers with our step, a plain one."""
    found = _executors.get(app)
    return found if found is not None else enlist(app, socket.gethostname(), "")


_executors: WeakKeyDictionary[Any, Executor] = WeakKeyDictionary()
