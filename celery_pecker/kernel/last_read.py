"""What was read, kept for some seconds."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from celery_pecker.kernel.clock import SYSTEM, Clock


@dataclass
class LastRead:
    """What was read, given again for some seconds; for all threads."""

    read: Callable[..., Any]
    fresh: float = 0.0
    """Seconds for which it is given again."""
    spared: float = 0.0
    """So many readings would fit between two: what takes long is read rarely."""
    clock: Clock = SYSTEM
    _until: float = -inf
    _known: Any = None
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, *source: Any) -> Any:
        """Return it of now, read from a source, or of the last seconds."""
        with self._reading:
            begun = self.clock.monotonic()
            if begun >= self._until:
                self._known = self.read(*source)
                ended = self.clock.monotonic()
                self._until = ended + self.fresh + self.spared * (ended - begun)
            return self._known

    def forget(self) -> None:
        """Read it anew when next asked."""
        self._until = -inf
