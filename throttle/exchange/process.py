"""The one exchange of this process, whoever asks for it, also after a fork.

A meter has one reader, so a process has one exchange. In a web process or a dispatcher
it is started by `report`, or by the first gate. A worker brings its own by `take`, and
what its pool's children count is in shared memory that the worker reads: a child never
reports. A gate in a child of a worker only asks.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from enum import Enum, auto
from multiprocessing.util import Finalize, register_after_fork
from typing import Any

from throttle.errors import Away, Misconfigured
from throttle.exchange.exchanger import Counts, Exchanger
from throttle.exchange.given import settings_of
from throttle.exchange.snapshot import Snapshot
from throttle.meter import meter
from throttle.model import Reading, Store
from throttle.settings import Settings
from throttle.store import open_store

logger = logging.getLogger("throttle")

NOTHING_HEARD = Snapshot()


class Part(Enum):
    """What this process is to the exchange."""

    NONE = auto()
    """Nobody has asked for one."""
    OWN = auto()
    """It counts, reports and asks."""
    WORKER = auto()
    """A worker runs its own exchange."""
    CHILD = auto()
    """A child of a worker: its parent reports what it counts."""


class Nothing:
    """The meter of one who only asks."""

    def read(self) -> Reading:
        """Return that nothing was counted."""
        return Reading({})


class Here:
    """The exchange of this process."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._part = Part.NONE
        self._settings: Settings | None = None
        self._name = ""
        self._exchanger: Exchanger | None = None
        self._store: Store | None = None
        """Opened here, to be closed here."""

    @property
    def snapshot(self) -> Snapshot:
        """What was heard last."""
        exchanger = self._exchanger or self._again()
        return NOTHING_HEARD if exchanger is None else exchanger.snapshot

    @property
    def exchanger(self) -> Exchanger | None:
        """The exchange that runs in this process, if one does."""
        return self._exchanger

    def wait(self, timeout: float) -> bool:
        """Wait for the first answer, that many seconds; say whether there is one."""
        exchanger = self._exchanger or self._again()
        return exchanger is not None and exchanger.wait(timeout)

    def report(self, settings: Settings, name: str | None = None) -> None:
        """This process counts and tells; nothing changes if it does already.

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
                self._again()
            elif self._settings is None:  # a child that is no fork: it only asks
                self._settings = settings

    def take(self, exchanger: Exchanger, settings: Settings) -> None:
        """The worker's exchange is this process' own; one that ran before ends.

        Call it before the worker's exchange starts and before its pool forks.
        """
        self.leave()
        with self._turn:
            self._part = Part.WORKER
            self._settings = settings
            self._exchanger = exchanger

    def become_child(self) -> None:
        """This process is a child of a worker, and no fork of it."""
        self.leave()
        with self._turn:
            self._part = Part.CHILD

    def leave(self) -> None:
        """No exchange runs here; one that was started here has told all it knows."""
        with self._turn:
            exchanger, self._exchanger = self._exchanger, None
            store, self._store = self._store, None
            self._part, self._settings = Part.NONE, None
        if exchanger is not None and store is not None:
            exchanger.stop()
            store.close()

    def _again(self) -> Exchanger | None:
        """Start it if it should run here and does not.

        In a child of a worker only a gate's question comes here.
        """
        with self._turn:
            if self._exchanger is None and self._settings is not None:
                counts: Counts = meter if self._part is Part.OWN else Nothing()
                self._store = open_store(self._settings)
                self._exchanger = Exchanger(
                    self._settings,
                    self._store,
                    counts,
                    name=self._name or f"{socket.gethostname()}:{os.getpid()}",
                )
                self._exchanger.start()
            return self._exchanger

    def forked(self) -> None:
        """In a child: the parent's thread and connections are not ours."""
        self._turn = threading.RLock()
        self._exchanger = None
        self._store = None
        if self._part is Part.WORKER:
            self._part = Part.CHILD
        elif self._part is Part.OWN:
            self._again()


here = Here()


def report(where: Any, *, name: str | None = None) -> None:
    """This process tells what it counts, from now on and in its forks.

    Args:
        where: A Celery app, its configuration, or `Settings`.
        name: For people; else the host's name and the process' id.

    Raises:
        Misconfigured: The settings are wrong, or it reports already, by others.
    """
    here.report(settings_of(where), name)


def asking(settings: Settings) -> Here:
    """Return the exchange of this process, which runs from now on.

    If it did not, the store is tried first: that takes two seconds at most.

    Raises:
        Misconfigured: The store is none, or refuses us, or this process reports
            already, by other settings. A store that is away is no mistake.
    """
    if here.exchanger is None:
        store = open_store(settings)
        try:
            store.check()
        except Away as error:
            logger.warning(
                "throttle: each limit's policy decides until there is an answer: %s",
                error,
            )
        finally:
            store.close()
    here.report(settings)
    return here


def _check_same(ours: Settings, theirs: Settings) -> None:
    for name in ("redis_url", "service_url", "prefix"):
        if getattr(ours, name) != getattr(theirs, name):
            message = (
                f"this process reports already, by another throttle_{name}: one"
                " process, one place to count"
            )
            raise Misconfigured(message)
    more = [name for name in theirs.limits if name not in ours.limits]
    if more:
        message = (
            f"this process reports already, by throttle_limits without {more[0]!r}:"
            " give all limits at the first place"
        )
        raise Misconfigured(message)


def _in_pool(ours: Here) -> None:
    Finalize(None, ours.leave, exitpriority=-1)


os.register_at_fork(after_in_child=here.forked)
atexit.register(here.leave)
# A child of `multiprocessing` forgets what was registered with `atexit`.
register_after_fork(here, _in_pool)
