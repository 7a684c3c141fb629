"""What arrived on the queue, and what it says of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PERIOD = 1.0
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages in the order of their arrival; instants in seconds since the epoch."""

    entries: NDArray[np.int64]
    arrived: Floats
    due: Floats
    """Empty for a scheduler that does not say what slot a message is of."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return what the consumer wrote."""
        with np.load(path) as kept:
            return cls(
                kept["entries"].astype(np.int64),
                kept["arrived"].astype(np.float64),
                kept["due"].astype(np.float64),
            )

    @property
    def dated(self) -> bool:
        """Whether each message says its slot."""
        return len(self.due) == len(self.arrived) > 0

    def between(self, since: float, until: float) -> Self:
        """Return what was due in the window; of undated messages, what arrived."""
        when = self.due if self.dated else self.arrived
        inside = (when >= since) & (when < until)
        due = self.due[inside] if self.dated else self.due
        return type(self)(self.entries[inside], self.arrived[inside], due)

    def slots(self) -> Self:
        """Return the first message of each slot; undated: all messages."""
        if not self.dated:
            return self
        _, first = np.unique(
            np.rec.fromarrays([self.entries, self.due]), return_index=True
        )
        first = np.sort(first)
        return type(self)(self.entries[first], self.arrived[first], self.due[first])

    def lateness(self) -> Floats:
        """Seconds between a slot's due instant and its message, for each message."""
        return self.arrived - self.due

    def last_of_each(self) -> Floats:
        """Return the lateness of the last message of each due instant."""
        instants, place = np.unique(self.due, return_inverse=True)
        late: Floats = np.full(len(instants), -np.inf)
        np.maximum.at(late, place, self.lateness())
        return late

    def last_lateness(self) -> Floats:
        """Return the lateness of the last message of each second's slots, in order."""
        if not len(self.due):
            return np.empty(0)
        # All entries of a trial come due within a part of a second. The second is cut
        # where none does, else one wake-up would count as two.
        phase = np.sort(np.unique(np.mod(self.due, PERIOD)))
        around = np.diff(np.append(phase, phase[0] + PERIOD))
        cut = phase[int(np.argmax(around))] + around.max() / 2
        second = np.floor((self.due - cut) / PERIOD).astype(np.int64)
        late: Floats = np.full(int(second.max() - second.min()) + 1, -np.inf)
        np.maximum.at(late, second - second.min(), self.lateness())
        # a second without any message is a matter of what was delivered
        told: Floats = late[np.isfinite(late)]
        return told

    def gaps(self) -> Floats:
        """Seconds between an entry's messages, for all entries."""
        order = np.lexsort((self.arrived, self.entries))
        entries, arrived = self.entries[order], self.arrived[order]
        same = entries[1:] == entries[:-1]
        gaps: Floats = np.diff(arrived)[same]
        return gaps

    def lag(self) -> Floats:
        """Seconds between each message and a grid that begins with its entry's first.

        The same question for all, also for those whose messages name no slot; it is
        kind: how late the first was is not in it.
        """
        if not len(self.arrived):
            return np.empty(0)
        order = np.lexsort((self.arrived, self.entries))
        entries, arrived = self.entries[order], self.arrived[order]
        starts = np.flatnonzero(np.append(True, entries[1:] != entries[:-1]))
        lengths = np.diff(np.append(starts, len(entries)))
        nth = np.arange(len(entries)) - np.repeat(starts, lengths)
        grid = np.repeat(arrived[starts], lengths) + nth * PERIOD
        lag: Floats = arrived - grid
        return lag

    def outstanding(self, since: float, until: float, entries: int) -> Floats:
        """Seconds by which messages are late already that have not come by the end.

        On the same grids; that of an entry without any message begins with the window.
        """
        names, first, counts = np.unique(
            self.entries, return_index=True, return_counts=True
        )
        never = max(entries - len(names), 0)
        # the first in time: messages are in the order of their arrival
        starts = np.append(self.arrived[first], np.full(never, since))
        came = np.append(counts, np.zeros(never, dtype=np.int64))
        due = np.ceil((until - starts) / PERIOD).astype(np.int64)
        missing = np.maximum(due - came, 0)
        nth = np.arange(missing.sum()) - np.repeat(
            np.cumsum(missing) - missing, missing
        )
        slots = np.repeat(starts + came * PERIOD, missing) + nth * PERIOD
        late: Floats = until - slots
        return late


def spread(values: Any, *, scale: float = 1.0, digits: int = 2) -> Figures | None:
    """Return what a table says of many values; None if there are none."""
    values = np.asarray(values, dtype=np.float64) * scale
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    named = {"p50": p50, "p95": p95, "p99": p99, "max": values.max()}
    return {name: round(float(value), digits) for name, value in named.items()}
