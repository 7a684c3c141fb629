"""Connections that the threads of a process share, each lent for one exchange.

Greenlets and threads come one per task: a connection for each would be dear. They are
made on first use, so never before a fork, and a child leaves alone what its parent has.

An idle connection is used a second time only if neither the server nor the way to it
can have ended it: the server's end of it is seen without a question (`Database.alive`),
and a firewall between the two forgets silent connections, which only their age shows.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.settings import Settings

MAX_CONNECTIONS = 4
"""How many short exchanges are under way at a time in one process."""
MAX_IDLE = 8
"""Idle connections that stay open."""
IDLE_TIMEOUT = 60.0
"""Seconds after which an unused connection is made anew."""


@dataclass(eq=False)
class Connections:
    """Lends connections to threads, within a process and a fork of it."""

    settings: Settings
    clock: Clock = SYSTEM
    _: KW_ONLY
    role: str
    """Part of the connections' `application_name`."""
    most: int | None = MAX_CONNECTIONS
    """Connections lent at a time. None: as many as threads ask for at once, for blocks
    of user code, which may nest and so may not wait for one another."""
    _idle: "_Idle" = field(default_factory=lambda: _Idle(os.getpid(), deque()))

    def __post_init__(self) -> None:
        self._places = None if self.most is None else _FairSemaphore(self.most)
        weakref.finalize(self, _close, self._idle)

    @contextmanager
    def connection(
        self, within: float | None = None, *, queue: float | None = None
    ) -> Iterator[Database]:
        """Yield a connection that no other thread uses meanwhile.

        Args:
            within: Seconds that it waits for anything, being lent included; None: as
                the settings say, and for a place as long as those before it take.
            queue: Seconds that it waits for a place, before ``within`` begins.

        Raises:
            DatabaseUnavailable: None was free in that time.

        """
        self._after_fork()
        places = self._places
        begun = self.clock.monotonic()
        wait = within if queue is None else queue
        if places is not None and not places.acquire(wait):
            raise DatabaseUnavailable(f"no connection was free within {wait:.3f} s")
        if queue is not None:
            begun = self.clock.monotonic()
        try:
            database = self._take()
            if within is not None:
                left = begun + within - self.clock.monotonic()
                database.limit_wait(max(left, 0.001))
            try:
                yield database
            except BaseException:
                database.close()  # which statement it was in, and how far, is unknown
                raise
            self._keep(database)
        finally:
            if places is not None:
                places.release()

    def close(self) -> None:
        """Close the idle connections."""
        self._after_fork()
        _close(self._idle)

    def _after_fork(self) -> None:
        if self._idle.process != os.getpid():
            # First: a thread that sees the new process takes the places for its own.
            self._places = None if self.most is None else _FairSemaphore(self.most)
            _close(self._idle)

    def _take(self) -> Database:
        while True:
            try:
                used, database = self._idle.databases.pop()
            except IndexError:
                return Database.of(self.settings, role=self.role)
            if self.clock.monotonic() - used < IDLE_TIMEOUT and database.alive():
                return database
            database.close()

    def _keep(self, database: Database) -> None:
        if database.connected and len(self._idle.databases) < MAX_IDLE:
            self._idle.databases.append((self.clock.monotonic(), database))
        else:
            database.close()


class _FairSemaphore:
    """A semaphore that hands its places to waiting threads first in, first out.

    A semaphore of the standard library lets the next caller overtake them: the thread
    that released a place has it again before a waiting thread has woken up.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    def acquire(self, timeout: float | None) -> bool:
        """Take a place, or wait for one; return whether there is one."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Event()
            self._queue.append(turn)
        try:
            turn.wait(timeout)
        except BaseException:
            if not self._left(turn):
                self.release()
            raise
        return not self._left(turn)

    def release(self) -> None:
        """Hand a place to the thread that has waited longest."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1

    def _left(self, turn: threading.Event) -> bool:
        """Leave the queue; return whether it was in there, so has no place."""
        with self._lock:
            if turn.is_set():
                return False
            self._queue.remove(turn)
            return True


@dataclass(slots=True)
class _Idle:
    """Idle connections, since when, and the process that opened them."""

    process: int
    databases: deque[tuple[float, Database]]


def _close(idle: _Idle) -> None:
    """Close connections; of those of a parent process only this process's end.

    Nothing may be sent to the server over a parent's: the server would take it for the
    parent's.
    """
    while idle.databases:
        _, database = idle.databases.pop()
        if idle.process == os.getpid():
            database.close()
        else:
            database.abandon()
    idle.process = os.getpid()
