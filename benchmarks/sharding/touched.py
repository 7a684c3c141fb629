"""How often each item was begun, and when: kept outside of processes that are killed.

Counts are a byte for each item in a file that all processes map: what a process wrote
there stays when it is killed, and costs a tenth of a microsecond. Instants are records
appended to a file of each process.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import RECORD, RUN, Runs


class Counts:
    """One byte for each item, shared by all who open the same file."""

    def __init__(self, path: Path, items: int) -> None:
        if not path.exists():
            path.write_bytes(bytes(items))
        self._file = path.open("r+b")
        self.bytes = mmap.mmap(self._file.fileno(), items)

    def read(self) -> NDArray[np.uint8]:
        """Return how often each item was begun."""
        return np.frombuffer(bytes(self.bytes), dtype=np.uint8)

    def close(self) -> None:
        """The file is let go."""
        self.bytes.close()
        self._file.close()


class Instants:
    """When items were begun, by the host's clock; one file for each process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._pid = 0

    def begun(self, item: int, shard: int) -> None:
        """It is in the file that this process began the item now."""
        if self._pid != os.getpid() or self._file is None:
            self._pid = os.getpid()
            name = self._folder / f"begun-{self._pid}"
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        now = time.time()
        os.write(self._file, RECORD.pack(now, now, shard, item))


def read(folder: Path) -> dict[int, Runs]:
    """Return what each process began, by its id: `statements` is the shard."""
    found = {}
    for path in folder.glob("begun-*"):
        data = path.read_bytes()
        whole = data[: len(data) // RECORD.size * RECORD.size]
        found[int(path.name.partition("-")[2])] = np.frombuffer(whole, dtype=RUN)
    return found


def latest(folder: Path) -> float:
    """Return when the last item was begun; 0 if none was."""
    ends = [runs["began"][-1] for runs in read(folder).values() if len(runs)]
    return float(max(ends, default=0.0))


def earliest_after(folder: Path, instant: float) -> float | None:
    """Return when the first item after that instant was begun."""
    found = [
        float(runs["began"][runs["began"] > instant][0])
        for runs in read(folder).values()
        if (runs["began"] > instant).any()
    ]
    return min(found, default=None)
