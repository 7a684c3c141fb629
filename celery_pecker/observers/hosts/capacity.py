"""How much a host may hold, where no option says it."""

import os
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PER_CORE = 2_500
"""Observers of weight 1 that one core bears: such that wait for most of the time."""
BYTES = 256 * 1024
"""Memory of one of them: 64 kB are those of a WebSocket with compression."""
MEMORY = 0.5
"""Part of the memory that is for observers."""
CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")


def worked_out(cores: float, memory: int, hosts: int) -> int:
    """Return the capacity of each of so many hosts on one machine; 1 at least."""
    whole = min(cores * PER_CORE, memory * MEMORY / BYTES)
    return max(1, int(whole / max(hosts, 1)))


def cores() -> float:
    """Return the cores that this process may use, with the limit of its container."""
    usable = float(
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        usable = min(usable, int(quota) / int(period))
    return usable


def memory() -> int:
    """Return the bytes of memory of this machine, or of its container."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        size = min(size, int((CGROUP / "memory.max").read_text()))
    return size


def used(pids: Iterable[int] = ()) -> int:
    """Return the bytes that this process and those of ``pids`` have in memory.

    One that has ended has none. Where there is no /proc: what this one had at most.
    """
    with suppress(OSError):
        return _resident("self") + sum(map(_resident_of_child, pids))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _resident(pid: str) -> int:
    pages = int((PROC / pid / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _resident_of_child(pid: int) -> int:
    with suppress(OSError):  # it has ended
        return _resident(str(pid))
    return 0
