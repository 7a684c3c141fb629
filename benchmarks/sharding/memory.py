"""How much a process grew within a block, whatever it had reached before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
FORGET_PEAK = "5"
"""What the kernel takes for: the peak is what there is now."""


@dataclass(slots=True)
class Grown:
    """Bytes from the beginning of a block to its peak; known when it has ended."""

    bytes: int | None = None


@contextmanager
def growth() -> Iterator[Grown]:
    """Give what is filled in at the end; None where there is no Linux to ask."""
    grown = Grown()
    gc.collect()
    if not CLEAR.exists():
        yield grown
        return
    CLEAR.write_text(FORGET_PEAK)
    before = _told("VmRSS")
    yield grown
    grown.bytes = _told("VmHWM") - before


def _told(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    message = f"{STATUS} has no {name}"
    raise LookupError(message)
