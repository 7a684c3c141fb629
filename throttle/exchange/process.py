"""The one exchange of this process, shared by all its callers, also after a fork.

A meter has one reader, so a process has one exchange. In a web process or a dispatcher
it is started by `report`, or by the first gate. A worker brings its own by `take`, and
what its pool's children count is in shared memory that the worker reads: a child never
reports. A gate in a child of a worker only asks.
"""

import atexit
import logging
import os
import socket
import threading
from enum import Enum, auto
from multiprocessing.util import Finalize, register_after_fork
from typing import Any

from throttle.errors import Misconfigured, StoreUnavailable
from throttle.exchange import Exchanger, Snapshot
from throttle.meter import meter
from throttle.model import Reading, Store
from throttle.settings import Settings, settings_of
from throttle.store import open_store

logger = logging.getLogger("throttle")

NO_SNAPSHOT = Snapshot()


class Part(Enum):
    """What this process is to the exchange."""

    NONE = auto()
    """None was asked for."""
    OWN = auto()
    """It counts, reports and asks."""
    WORKER = auto()
    """A worker runs its own exchange."""
    CHILD = auto()
    """A child of a worker: its parent reports what it counts."""


class ProcessExchange:
    """The exchange of this process."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._part = Part.NONE
        self._settings: Settings | None = None
        self._name = ""
        self._exchanger: Exchanger | None = None
        self._store: Store | None = None
        """Opened by this object, which closes it."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the last answer."""
        exchanger = self._exchanger or self._started()
        return NO_SNAPSHOT if exchanger is None else exchanger.snapshot

    @property
    def exchanger(self) -> Exchanger | None:
        """Return the exchange that runs in this process, if one does."""
        return self._exchanger

    def wait(self, timeout: float) -> bool:
        """Wait for the first answer, that many seconds; say whether there is one."""
        exchanger = self._exchanger or self._started()
        return exchanger is not None and exchanger.wait(timeout)

    def report(self, settings: Settings, name: str | None = None) -> None:
        """Begin to count and report in this process; do nothing if it has begun.

        Raises:
            Misconfigured: It does so by other settings.
        """
        with self._turn:
            if self._settings is not None:
                _check_same(self._settings, settings)
            elif self._part is Part.NONE:
                self._part = Part.OWN
            if self._part is Part.OWN:
                self._settings, self._name = settings, name or self._name
                self._started()
            elif self._settings is None:  # a child that is no fork: it only asks
                self._settings = settings

    def take(self, exchanger: Exchanger, settings: Settings) -> None:
        """Use the worker's exchange for this process; end one that ran before.

        Call it before the worker's exchange starts and before its pool forks.
        """
        self.leave()
        with self._turn:
            self._part = Part.WORKER
            self._settings = settings
            self._exchanger = exchanger

    def become_child(self) -> None:
        """Register this process as a child of a worker that is no fork of it."""
        self.leave()
        with self._turn:
            self._part = Part.CHILD

    def leave(self) -> None:
        """End the exchange of this process, after a last report."""
        with self._turn:
            exchanger, self._exchanger = self._exchanger, None
            store, self._store = self._store, None
            self._part, self._settings = Part.NONE, None
        if exchanger is not None and store is not None:
            exchanger.stop()
            store.close()

    def _started(self) -> Exchanger | None:
        """Start the exchange if it should run in this process; return it.

        In a child of a worker only a gate calls this.
        """
        with self._turn:
            if self._exchanger is None and self._settings is not None:
                self._store = open_store(self._settings)
                self._exchanger = Exchanger(
                    self._settings,
                    self._store,
                    # One that only asks counts nothing.
                    meter.read if self._part is Part.OWN else lambda: Reading({}),
                    name=self._name or f"{socket.gethostname()}:{os.getpid()}",
                )
                self._exchanger.start()
            return self._exchanger

    def forked(self) -> None:
        """Leave the parent's thread and connections alone, in a child."""
        self._turn = threading.RLock()
        self._exchanger = None
        self._store = None
        if self._part is Part.WORKER:
            self._part = Part.CHILD
        elif self._part is Part.OWN:
            self._started()


this_process = ProcessExchange()


def report(where: Any, *, name: str | None = None) -> None:
    """Report what this process counts, from now on and in its forks.

    Args:
        where: A Celery app, its configuration, or `Settings`.
        name: For people; else the host's name and the process' id.

    Raises:
        Misconfigured: The settings are wrong, or it reports already, by others.
    """
    this_process.report(settings_of(where), name)


def asking(settings: Settings) -> ProcessExchange:
    """Return the exchange of this process, which runs from now on.

    If it did not, the store is tried first: that takes two seconds at most.

    Raises:
        Misconfigured: The store is none, or refuses us, or this process reports
            already, by other settings. A store that is away is no mistake.
    """
    if this_process.exchanger is None:
        store = open_store(settings)
        try:
            store.check()
        except StoreUnavailable as error:
            logger.warning(
                "throttle: each limit's policy decides until there is an answer: %s",
                error,
            )
        finally:
            store.close()
    this_process.report(settings)
    return this_process


def _check_same(ours: Settings, theirs: Settings) -> None:
    for name in ("redis_url", "service_url", "prefix"):
        if getattr(ours, name) != getattr(theirs, name):
            raise Misconfigured(
                f"this process reports already, by another throttle_{name}: one"
                " process, one place to count"
            )
    more = [name for name in theirs.limits if name not in ours.limits]
    if more:
        raise Misconfigured(
            f"this process reports already, by throttle_limits without {more[0]!r}:"
            " give all limits at the first place"
        )


def _in_pool(ours: ProcessExchange) -> None:
    Finalize(None, ours.leave, exitpriority=-1)


os.register_at_fork(after_in_child=this_process.forked)
atexit.register(this_process.leave)
# A child of `multiprocessing` forgets what was registered with `atexit`.
register_after_fork(this_process, _in_pool)
