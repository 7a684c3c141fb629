"""The backend's rule: a call about which nobody asks for too long is hung up.

Pure: instants are given, in seconds of any clock that only goes forward. This is
what the whole service exists to prevent, so it is kept here, by the other side, and
not worked out from the service's own records.
"""

from __future__ import annotations


class Backend:
    """Keeps calls up for as long as they are asked about."""

    def __init__(self) -> None:
        self._asked: dict[int, float] = {}
        self._bound = float("inf")
        self._silence = 0.0
        self.dropped: set[int] = set()

    def hold(self, calls: int, bound: float, now: float) -> None:
        """Calls 1 to `calls` are up, and each is dropped after `bound` s of silence."""
        self._asked = dict.fromkeys(range(1, calls + 1), now)
        self._bound = bound
        self._silence = 0.0
        self.dropped.clear()

    def asked(self, call: int, now: float) -> bool:
        """Somebody asked about the call; whether it is still up."""
        self.look(now)
        if call in self._asked and call not in self.dropped:
            self._asked[call] = now
        return call not in self.dropped

    def look(self, now: float) -> None:
        """Every call that has been silent for too long is dropped."""
        for call, asked in self._asked.items():
            if call in self.dropped:
                continue
            self._silence = max(self._silence, now - asked)
            if now - asked > self._bound:
                self.dropped.add(call)

    def silence(self, now: float) -> float:
        """Return the longest that any call has gone unasked, in seconds."""
        self.look(now)
        return self._silence
