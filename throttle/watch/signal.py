"""Asks a PostgreSQL how it is, in bounded time.

Every wait is bounded on the client's side, as of all databases of the kernel. A
connection whose question was not answered is dropped, and the next one waits longer
each time: a server that hangs must not be filled with connections that ask for its
state.
"""

from collections.abc import Sequence
from typing import NamedTuple

from celery_pecker.kernel.clock import Monotonic, monotonic
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.forks import abandon_in_forks
from throttle import addresses
from throttle.errors import ThrottleError
from throttle.model import Watch
from throttle.watch.limit_factor import FAR, Symptom

ANSWER = 1.0
"""Seconds for an answer."""
CALLING_OFF = 0.5
LONGEST = 30.0
"""Seconds until a server that did not answer is asked once more, at most."""
FULL = ("too many clients", "remaining connection slots")
"""What a server says, in English, that has no connection left."""


class Unanswered(ThrottleError):
    """The server did not report its state; or it is not time to ask it."""


class Row(NamedTuple):
    """What a server says of itself."""

    at: float
    """Seconds since 1970, by its clock."""
    active: float
    """Backends that are at work."""
    written: float
    """Bytes of its log."""
    lag: float | None
    """Seconds that a replica is behind."""
    sees_all: bool


class Signal:
    """One watched server; for one thread."""

    def __init__(
        self, database: str, watch: Watch, *, clock: Monotonic = monotonic
    ) -> None:
        self._watch = watch
        self._clock = clock
        addresses.postgres(f"throttle_limits[{database!r}]['watch']['dsn']", watch.dsn)
        self.database = Database(
            watch.dsn, schema="", timeout=ANSWER, role="watch", package="throttle"
        )
        self.database.call_off(CALLING_OFF)
        self._written: tuple[float, float] | None = None
        self._failures = 0
        self._next_attempt = float("-inf")
        self.sees_all = True
        """Whether the role sees what other roles do; without that it sees nothing."""
        abandon_in_forks(self.database)

    def ask(self) -> Sequence[Symptom]:
        """Return what the server says of itself; raises Unanswered."""
        now = self._clock()
        if now < self._next_attempt:
            raise Unanswered(f"{self.database.where} is asked later: it did not answer")
        try:
            [row] = self.database.read(Row, "signal")
        except PeckerError as error:
            return self._failed(error)
        self._failures = 0
        self.sees_all = row.sees_all
        return self._symptoms(row)

    def close(self) -> None:
        """Close the connection; forget what was written so far."""
        self._written = None
        self.database.close()

    def _symptoms(self, row: Row) -> Sequence[Symptom]:
        watch, symptoms = self._watch, []
        before, self._written = self._written, (row.at, row.written)
        if watch.active is not None:
            symptoms.append(_symptom("active backends", row.active, watch.active))
        if watch.wal_rate is not None and before is not None:
            elapsed, written = row.at - before[0], row.written - before[1]
            if elapsed > 0 and written >= 0:  # else another server, or another clock
                symptoms.append(
                    _symptom(
                        "bytes of WAL per second", written / elapsed, watch.wal_rate
                    )
                )
        if watch.lag is not None:
            symptoms.append(_symptom("seconds of lag", row.lag or 0.0, watch.lag))
        return symptoms

    def _failed(self, error: PeckerError) -> Sequence[Symptom]:
        self.close()
        if any(mark in str(error) for mark in FULL):
            return [Symptom(FAR, "no connection is free")]
        self._failures += 1
        self._next_attempt = self._clock() + min(2.0 ** (self._failures - 1), LONGEST)
        raise Unanswered(
            f"{self.database.where} does not say how it is: {error}"
        ) from error


def _symptom(name: str, value: float, threshold: float) -> Symptom:
    return Symptom(value / threshold, f"{value:.6g} {name}, of {threshold:g}")
