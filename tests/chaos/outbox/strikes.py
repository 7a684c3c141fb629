"""A process strikes itself where it is told to.

An order is a file FOLDER/PID that says ``after push KILL`` or ``before close STOP``:
the process carries it out the next time it comes to that point. FOLDER/PID.ready is
there once it has come to any.
"""

from __future__ import annotations

import os
import signal
from functools import wraps
from pathlib import Path
from typing import Any


class Strikes:
    """What this process is told to do to itself."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / str(os.getpid())
        self._ready = self._path.with_suffix(".ready")

    def watch(self, owner: Any, *methods: str) -> None:
        """Make a point before and after each of these methods."""
        for name in methods:
            setattr(owner, name, self._watched(getattr(owner, name), name))

    def come_to(self, point: str) -> None:
        """Carry out an order for this point."""
        try:
            order = self._path.read_text()
        except FileNotFoundError:
            return
        where, _, word = order.rpartition(" ")
        if where == point:
            self._path.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.Signals[f"SIG{word}"])

    def _watched(self, method: Any, name: str) -> Any:
        @wraps(method)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.come_to(f"before {name}")
            result = method(*args, **kwargs)
            self._ready.touch()
            self.come_to(f"after {name}")
            return result

        return watched
