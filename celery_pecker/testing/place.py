"""Choose where the files of an embedded server lie."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from celery_pecker.testing.binaries import reachable

MEMORY = Path("/dev/shm")  # noqa: S108 — a directory of mkdtemp in it
ROOM = 2 * 2**30
"""Bytes that must be free there: a container of Docker has 64 MB of it."""


def place(*, passable: bool, fast: bool) -> Path:
    """Return a directory for temporary files.

    Args:
        passable: Another user than this process's must be able to enter it.
        fast: It may be gone with the machine. It is in memory where there is room: on
            ext4 PostgreSQL makes a database in 150 ms or more, there in 30.
    """
    usual = Path(tempfile.gettempdir())
    places = [usual]
    if fast and _has_room(MEMORY):
        places.insert(0, MEMORY)
    if not passable:
        return places[0]
    places += [Path("/tmp"), Path("/var/tmp")]  # noqa: S108 — only if TMPDIR is closed to the server
    for one in places:
        if one.is_dir() and reachable(one.resolve()):
            return one
    return usual


def _has_room(memory: Path) -> bool:
    try:
        free = shutil.disk_usage(memory).free
        flags = os.statvfs(memory).f_flag
    except OSError:
        return False
    # programs in a closed directory are copied to where the server's files are
    return free > ROOM and not flags & os.ST_NOEXEC and os.access(memory, os.W_OK)
