"""Held tasks that were revoked or have expired: they leave, and never start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any
from weakref import ref

from celery.worker import state
from kombu.utils.functional import maybe_list

from throttle.clock import Monotonic, monotonic, now
from throttle.worker.brokers.held import Held

ALL_EVERY = 1.0
"""Seconds between two looks at all that is held, while Celery's list of revocations is
full: it forgets one for each that it learns, and their number says nothing."""
SLACK = 1000
"""Tasks that left before they expired, and are not worth being cleared away yet."""

Expiry = tuple[float, int, ref[Held]]


class RevokedOrExpired:
    """Finds them without looking at all that is held."""

    def __init__(
        self,
        held: Callable[[], Iterable[Held]],
        leave: Callable[[Held], object],
        clock: Monotonic = monotonic,
    ) -> None:
        self._held = held
        self._leave = leave
        self._clock = clock
        self._expiries: list[Expiry] = []
        self._number = count()
        self._revoked = _revocations()
        self._looked = -ALL_EVERY
        self._suspects: list[Held] = []

    def add(self, held: Held) -> None:
        """Watch one that is held from now on."""
        expires = held.request.expires
        if expires is not None:
            entry = (expires.timestamp(), next(self._number), ref(held))
            heappush(self._expiries, entry)

    def clear(self) -> None:
        """Forget all: nothing is held."""
        self._expiries.clear()
        self._suspects.clear()

    def sweep(self, until: float, holding: int) -> bool:
        """Remove those that are dead; return False if time was too short for all.

        Celery writes each one's result and acknowledges it, on the consumer's thread,
        as it does for those that are dead when they arrive.
        """
        moment = now().timestamp()
        while self._expiries and self._expiries[0][0] < moment:
            held = heappop(self._expiries)[2]()
            if held is not None and held.request.revoked():
                self._leave(held)
            if self._clock() > until:
                return False
        if len(self._expiries) > 2 * holding + SLACK:
            self._expiries = [one for one in self._expiries if one[2]() is not None]
            heapify(self._expiries)
        return self._sweep_revoked(until)

    def _sweep_revoked(self, until: float) -> bool:
        known, moment = _revocations(), self._clock()
        full = len(state.revoked) >= state.revoked.maxlen
        if known != self._revoked or (
            full and not self._suspects and moment - self._looked >= ALL_EVERY
        ):
            self._revoked, self._looked = known, moment
            self._suspects = list(self._held())
        while self._suspects:
            held = self._suspects.pop()
            if held.request.revoked():
                self._leave(held)
            if self._clock() > until:
                return False
        return True


def _revocations() -> tuple[int, int]:
    stamps: Iterable[Any] = state.revoked_stamps.values()
    return len(state.revoked), sum(len(maybe_list(one)) for one in stamps)
