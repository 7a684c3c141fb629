"""``celery`` in a process whose host clock is wrong, by as much as a file says.

``python -m tests.chaos.shifted FILE -A … beat …``. There is no libfaketime in a wheel,
so this patches what Python reads: ``time.time`` and ``datetime.now``. The monotonic
clock stays, as it does when a host's clock is set.
"""

# ruff: noqa: TID251  # the very functions that are replaced

from __future__ import annotations

import datetime as dt
import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

SHIFT = struct.Struct("d")
_time = time.time
_Datetime: TypeAlias = dt.datetime


class _Instances(type):
    """What C code makes is a datetime all the same."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Datetime)


def shift(file: Path) -> None:
    """The host's clock is ahead by the seconds in the file, from now on."""
    with file.open("r+b") as opened:
        seen = mmap.mmap(opened.fileno(), SHIFT.size, access=mmap.ACCESS_READ)

    def ahead() -> float:
        return float(SHIFT.unpack_from(seen)[0])

    class Shifted(_Datetime, metaclass=_Instances):
        """A datetime whose now is as wrong as the file says."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return _Datetime.now(tz) + dt.timedelta(seconds=ahead())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(dt.UTC).replace(tzinfo=None)

    time.time = lambda: _time() + ahead()
    dt.datetime = Shifted  # type: ignore[misc]


def write(file: Path, seconds: float) -> None:
    """A process that runs on this file sees its clock stepped at once."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(SHIFT.pack(seconds))


if __name__ == "__main__":
    shift(Path(sys.argv.pop(1)))
    from celery.__main__ import main

    main()
